// Finding and opening what a training left behind.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "engine/module.h"
#include "engine/safetensors.h"
#include "training/checkpoint_state.h"

namespace ringgrad::apps {

// The weights that `path` means: a .safetensors file, a checkpoint folder, or a run folder's newest
// checkpoint.
std::filesystem::path weights_file(const std::filesystem::path& path);

struct SavedModel {
  training::RunDescription run;
  std::unique_ptr<Module> model;
};
// The network with its weights, on `context`.
SavedModel load_model(Context& context, const std::filesystem::path& path);

}  // namespace ringgrad::apps
