// The works that both bench_step and its peer measure: a network, an input, a batch.
#pragma once

#include <string>
#include <vector>

#include "runtime/error.h"

namespace ringgrad::bench {

struct Work {
  std::string name, model;
  int batch, size, classes;
};

inline const std::vector<Work>& works() {
  static const std::vector<Work> list = {{"cifar-net", "cifar-net", 64, 32, 10},
                                         {"resnet18-224", "resnet18", 16, 224, 2},
                                         {"resnet18-32", "resnet18", 64, 32, 10}};
  return list;
}

inline const Work& work_named(const std::string& name) {
  for (const Work& work : works()) {
    if (work.name == name) {
      return work;
    }
  }
  throw Error("unknown work " + name + "; expected cifar-net, resnet18-224 or resnet18-32");
}

}  // namespace ringgrad::bench
