// Models by the name that a user gives.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/module.h"

namespace ringgrad {

struct ModelOptions {
  Index classes = 10;
  bool cifar_stem = false;  // resnet18: 3x3 stride 1 without max-pool, for 32x32
};

std::vector<std::string> model_names();
// "cifar-net" or "resnet18"; Error that lists them for anything else.
std::unique_ptr<Module> make_model(const std::string& name, const ModelOptions& options);

}  // namespace ringgrad
