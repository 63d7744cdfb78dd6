#include "models/resnet.h"

#include <cmath>

namespace ringgrad {
namespace {

// Without bias; weights normal with variance 2 / (kernel^2 * OUT) (He's initialisation by fan-out).
Conv2d convolution(Index in, Index out, Index kernel, Index stride, Index pad) {
  Conv2d conv(in, out, kernel, {stride, pad, false});
  conv.weight.initializer = {Initializer::Kind::normal,
                             std::sqrt(2.0 / static_cast<double>(kernel * kernel * out))};
  return conv;
}

ModuleList<BasicBlock> stage(Index in, Index out, Index stride) {
  return {{BasicBlock(in, out, stride), BasicBlock(out, out, 1)}};
}

}  // namespace

BasicBlock::BasicBlock(Index in, Index out, Index stride)
    : conv1(convolution(in, out, 3, stride, 1)),
      bn1(out),
      conv2(convolution(out, out, 3, 1, 1)),
      bn2(out) {
  if (stride != 1 || in != out) {
    downsample_conv = convolution(in, out, 1, stride, 0);
    downsample_bn = BatchNorm2d(out);
  }
}

Tensor BasicBlock::forward(const Tensor& x) {
  const Tensor residual = downsample_conv ? (*downsample_bn)((*downsample_conv)(x)) : x;
  return bn2.add_relu(conv2(bn1.relu(conv1(x))), residual);
}

void BasicBlock::members(Members& m) {
  m("conv1", conv1)("bn1", bn1)("conv2", conv2)("bn2", bn2);
  if (downsample_conv) {
    m("downsample.0", *downsample_conv)("downsample.1", *downsample_bn);
  }
}

ResNet18::ResNet18(Index classes, ResNetStem stem_)
    : stem(stem_),
      conv1(stem_ == ResNetStem::imagenet ? convolution(3, 64, 7, 2, 3)
                                          : convolution(3, 64, 3, 1, 1)),
      bn1(64),
      layer1(stage(64, 64, 1)),
      layer2(stage(64, 128, 2)),
      layer3(stage(128, 256, 2)),
      layer4(stage(256, 512, 2)),
      fc(512, classes) {}

Tensor ResNet18::forward(const Tensor& x) {
  RINGGRAD_CHECK(x.shape().rank() == 4 && x.size(3) == 3,
                 "resnet18 takes images of (N, H, W, 3); got ", x.shape().text());
  Tensor h;
  if (stem == ResNetStem::imagenet) {
    // The pooling applies the ReLU: the same values on a quarter of the pixels.
    h = max_pool2d(bn1(conv1(x)), {3, 2, 1, /*relu=*/true});
  } else {
    h = bn1.relu(conv1(x));
  }
  h = layer4(layer3(layer2(layer1(h))));
  return fc(global_avg_pool2d(h));
}

void ResNet18::members(Members& m) {
  m("conv1", conv1)("bn1", bn1);
  layer1.list(m, "layer1");
  layer2.list(m, "layer2");
  layer3.list(m, "layer3");
  layer4.list(m, "layer4");
  m("fc", fc);
}

}  // namespace ringgrad
