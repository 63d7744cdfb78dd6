// The network of the CIFAR tutorial for 32x32 images with three channels:
// conv1 3->32 3x3 -> ReLU -> max-pool 2 -> conv2 32->64 3x3 -> ReLU -> max-pool 2 -> fc1 4096->512
// -> ReLU -> fc2.
#pragma once

#include "engine/layers.h"

namespace ringgrad {

struct CifarNet : Module {
  explicit CifarNet(Index classes = 10);

  Tensor forward(const Tensor& x) override;  // (N,32,32,3) -> (N,classes)
  void members(Members& m) override;

  Conv2d conv1, conv2;
  Linear fc1, fc2;
};

}  // namespace ringgrad
