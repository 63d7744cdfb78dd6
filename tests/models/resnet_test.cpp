#include "models/resnet.h"

#include <gtest/gtest.h>

#include "engine/checkpoint.h"
#include "kernels/backends.h"
#include "tests/support/expect_error.h"

namespace ringgrad::test {
namespace {

TEST(ResNet18, HasTorchvisionsParametersInItsOrder) {
  ResNet18 net;
  EXPECT_EQ(net.parameter_count(), 11689512);
  const Members members = net.all_members();
  EXPECT_EQ(members.parameters.size(), 62U);
  EXPECT_EQ(members.buffers.size(), 40U);
  const char* first[] = {"conv1.weight",          "bn1.weight",          "bn1.bias",
                         "layer1.0.conv1.weight", "layer1.0.bn1.weight", "layer1.0.bn1.bias",
                         "layer1.0.conv2.weight", "layer1.0.bn2.weight", "layer1.0.bn2.bias",
                         "layer1.1.conv1.weight"};
  for (std::size_t i = 0; i < std::size(first); ++i) {
    EXPECT_EQ(members.parameters[i].first, first[i]);
  }
  EXPECT_EQ(members.parameters[21].first, "layer2.0.downsample.0.weight");
  EXPECT_EQ(members.parameters[22].first, "layer2.0.downsample.1.weight");
  EXPECT_EQ(members.parameters.back().first, "fc.bias");
  EXPECT_EQ(members.counters.front().first, "bn1.num_batches_tracked");
}

TEST(ResNet18, StoredShapesAreTorchvisions) {
  const auto context = kernels::open_context("cpu", 2);
  ResNet18 net(2);
  net.to(*context, 0);
  const auto tensors = weights_of(net).tensors;
  using S = std::vector<std::int64_t>;
  EXPECT_EQ(tensors.at("conv1.weight").shape, (S{64, 3, 7, 7}));
  EXPECT_EQ(tensors.at("layer4.0.downsample.0.weight").shape, (S{512, 256, 1, 1}));
  EXPECT_EQ(tensors.at("layer3.1.conv2.weight").shape, (S{256, 256, 3, 3}));
  EXPECT_EQ(tensors.at("fc.weight").shape, (S{2, 512}));
}

// Nine images in batches of eight leave one, and 32x32 shrinks to 1x1.
TEST(ResNet18, OneImageOf32x32IsRefusedInTraining) {
  const auto context = kernels::open_context("cpu", 2);
  ResNet18 net(10);
  net.to(*context, 0);
  EXPECT_TRUE(contains(error_of([&] {
                         net(Tensor::zeros(*context, {1, 32, 32, 3}));
                       }),
                       "one value per channel"));
}

TEST(ResNet18, BothStemsTakeTheirImages) {
  const auto context = kernels::open_context("cpu", 2);
  const NoGrad no_grad(*context);
  ResNet18 imagenet(7), cifar(10, ResNetStem::cifar);
  imagenet.to(*context, 0);
  cifar.to(*context, 0);
  EXPECT_EQ(imagenet(Tensor::zeros(*context, {2, 64, 96, 3})).shape(), (Shape{2, 7}));
  EXPECT_EQ(cifar(Tensor::zeros(*context, {2, 32, 32, 3})).shape(), (Shape{2, 10}));
}

}  // namespace
}  // namespace ringgrad::test
