// ResNet-18 as torchvision builds it: the same names, order, shapes and initialisation.
// Source: He, Zhang, Ren, Sun, "Deep residual learning for image recognition", 2015.
#pragma once

#include <optional>

#include "engine/layers.h"

namespace ringgrad {

enum class ResNetStem {
  imagenet,  // 7x7 stride 2, then max-pool 3x3 stride 2: for images of 224x224
  cifar,     // 3x3 stride 1, no max-pool: for images of 32x32
};

struct BasicBlock : Module {
  BasicBlock(Index in, Index out, Index stride);

  Tensor forward(const Tensor& x) override;
  void members(Members& m) override;

  Conv2d conv1;
  BatchNorm2d bn1;
  Conv2d conv2;
  BatchNorm2d bn2;
  // Where stride or channels change: a 1x1 convolution and its normalisation, "downsample.0" and
  // ".1".
  std::optional<Conv2d> downsample_conv;
  std::optional<BatchNorm2d> downsample_bn;
};

struct ResNet18 : Module {
  explicit ResNet18(Index classes = 1000, ResNetStem stem = ResNetStem::imagenet);

  Tensor forward(const Tensor& x) override;  // (N,H,W,3) -> (N,classes)
  void members(Members& m) override;

  ResNetStem stem;
  Conv2d conv1;
  BatchNorm2d bn1;
  ModuleList<BasicBlock> layer1, layer2, layer3, layer4;
  Linear fc;
};

}  // namespace ringgrad
