// The backends that are built in, and how a user's `--device` becomes a replica.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/operation_table.h"
#include "runtime/context.h"

namespace ringgrad::kernels {

struct Backend {
  std::string name;     // what `--device` says before the colon
  std::string summary;  // one line for --help and `info`
  std::string library;  // what it computes with, with version; may be empty
  // The devices that `argument` (what follows "NAME:", may be empty) names, as arguments of open:
  // one for most, several for a profile such as k80x4. Throws Error with the reason when there is
  // none.
  std::vector<std::string> (*list)(const std::string& argument);
  std::unique_ptr<DeviceTable> (*open)(const std::string& argument);
  const OperationTable& (*operations)();
};

// To add a backend: fill a DeviceTable and an OperationTable, and append it in backends.cpp.
const std::vector<Backend>& backends();

// How many devices `device` names.
int device_count(const std::string& device);
// A replica on the first of the devices that `device` names ("cpu", "reference", "cuda:1",
// "emulated:k80x4"), or for the `index`-th replica on the one whose turn it is. threads = 0: all
// cores. An unknown device is an Error that lists the known ones.
std::unique_ptr<Context> open_context(const std::string& device, int threads = 0, int index = 0);
// `count` replicas, one on each device that `device` names, in turn if there are fewer.
std::vector<std::unique_ptr<Context>> open_contexts(const std::string& device, int count,
                                                    int threads = 0);

}  // namespace ringgrad::kernels
