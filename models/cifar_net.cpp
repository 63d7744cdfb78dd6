#include "models/cifar_net.h"

namespace ringgrad {

CifarNet::CifarNet(Index classes)
    : conv1(3, 32, 3, {1, 1, true}),
      conv2(32, 64, 3, {1, 1, true}),
      fc1(64 * 8 * 8, 512),
      fc2(512, classes) {}

Tensor CifarNet::forward(const Tensor& x) {
  RINGGRAD_CHECK(x.shape().rank() == 4 && x.size(1) == 32 && x.size(2) == 32 && x.size(3) == 3,
                 "cifar-net takes images of (N, 32, 32, 3); got ", x.shape().text());
  // ReLU and max-pooling commute, so the ReLU runs on a quarter of the values.
  const MaxPool2dOptions pool_relu{2, 2, 0, /*relu=*/true};
  Tensor h = max_pool2d(conv1(x), pool_relu);
  h = max_pool2d(conv2(h), pool_relu);
  return fc2(relu(fc1(flatten(h))));
}

void CifarNet::members(Members& m) {
  m("conv1", conv1)("conv2", conv2)("fc1", fc1)("fc2", fc2);
}

}  // namespace ringgrad
