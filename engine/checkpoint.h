// Checkpoints: a folder that appears whole, by one rename.
//
//   model.safetensors   the weights alone, under torchvision's names, filters as OIHW: PyTorch
//   loads it state.safetensors   what resuming needs beside them: the optimizer's momentum, and
//   text that the training
//                       loop supplies (epoch, step, settings, class names)
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engine/module.h"
#include "engine/safetensors.h"
#include "engine/sgd.h"

namespace ringgrad {

// Parameters, buffers and counters of a module, on the host, as a checkpoint names and orders them.
Safetensors weights_of(Module& module);
// `metadata` goes into the file's own header, where PyTorch ignores it.
using StateText = std::map<std::string, std::string>;
void save_weights(Module& module, const std::filesystem::path& path,
                  const StateText& metadata = {});

struct LoadOptions {
  // Parameters of these modules ("fc") keep their fresh values where the file's shape differs.
  std::vector<std::string> may_differ;
};

// Copies the file's tensors into the module, which must have memory. Returns what a user should
// know: a stripped "module." prefix, parameters that kept fresh values. Error: a missing or
// unexpected key, a shape that differs. Only num_batches_tracked may be missing.
std::vector<std::string> load_weights(Module& module, const std::filesystem::path& path,
                                      const LoadOptions& options = {});
std::vector<std::string> load_weights(Module& module, Safetensors content,
                                      const std::string& source, const LoadOptions& options = {});

// Writes `folder` (which must not exist) whole: a temporary folder beside it, flushed, renamed.
// `about` goes into the header of the weights, `state` into the other file.
void save_checkpoint(const std::filesystem::path& folder, Module& module, const SGD& optimizer,
                     const FlatParameters& parameters, const StateText& about,
                     const StateText& state);
// Loads weights and momentum, bit for bit, and returns the text.
StateText load_checkpoint(const std::filesystem::path& folder, Module& module, SGD& optimizer,
                          const FlatParameters& parameters);
// The text alone.
StateText read_state(const std::filesystem::path& folder);

}  // namespace ringgrad
