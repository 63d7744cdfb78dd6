#include "engine/module.h"

#include <gtest/gtest.h>

#include "engine/flat_parameters.h"
#include "engine/layers.h"
#include "kernels/backends.h"
#include "models/cifar_net.h"
#include "tests/support/compare.h"

namespace ringgrad::test {
namespace {

std::vector<std::string> names_of(Module& module) {
  std::vector<std::string> names;
  for (const auto& [name, parameter] : module.all_members().parameters) {
    names.push_back(name);
  }
  return names;
}

class ModuleTest : public testing::Test {
 protected:
  std::unique_ptr<Context> context_ = kernels::open_context("cpu", 1);
};

TEST_F(ModuleTest, NamesAreTheTutorials) {
  CifarNet net;
  EXPECT_EQ(names_of(net),
            (std::vector<std::string>{"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias",
                                      "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}));
  EXPECT_EQ(net.parameter_count(), 2122186);
}

TEST_F(ModuleTest, InitialValuesFollowFromSeedAndNameAlone) {
  CifarNet a, b, c;
  a.to(*context_, 1);
  b.fc1 = Linear(4096, 512);
  b.to(*context_, 1);
  c.to(*context_, 2);
  const auto values = [](CifarNet& net) { return net.fc2.weight.tensor.to_host<float>(); };
  EXPECT_EQ(values(a), values(b));
  EXPECT_NE(values(a), values(c));
  for (const float w : values(a)) {
    ASSERT_LE(std::abs(w), 1 / std::sqrt(512.0F));
  }
}

TEST_F(ModuleTest, AReplacedLayerStartsAfreshAndOthersKeepTheirValues) {
  CifarNet net;
  net.to(*context_, 1);
  const std::vector<float> conv = net.conv1.weight.tensor.to_host<float>();
  net.fc2 = Linear(512, 2);
  net.to(*context_, 5);
  EXPECT_EQ(net.conv1.weight.tensor.to_host<float>(), conv);
  const NoGrad no_grad(*context_);
  EXPECT_EQ(net(Tensor::zeros(*context_, {3, 32, 32, 3})).shape(), (Shape{3, 2}));
}

TEST_F(ModuleTest, TrainAndEvalReachEveryModule) {
  struct Net : Module {
    BatchNorm2d bn{2};
    Tensor forward(const Tensor& x) override { return bn(x); }
    void members(Members& m) override { m("bn", bn); }
  } net;
  net.eval();
  EXPECT_FALSE(net.bn.training());
  net.train();
  EXPECT_TRUE(net.bn.training());
}

TEST_F(ModuleTest, FlatParametersAreViewsInReverseOrder) {
  CifarNet net;
  net.to(*context_, 1);
  const std::vector<float> bias = net.fc2.bias.tensor.to_host<float>();
  const FlatParameters flat(*context_, net);
  EXPECT_EQ(flat.ranges().front().name, "fc2.bias");
  EXPECT_EQ(flat.ranges().front().begin, 0);
  EXPECT_EQ(flat.ranges().back().name, "conv1.weight");
  EXPECT_EQ(net.fc2.bias.tensor.to_host<float>(), bias);
  EXPECT_EQ(net.fc2.bias.tensor.raw(), flat.values().raw());
  for (const FlatParameters::Range& range : flat.ranges()) {
    EXPECT_EQ(range.begin % 64, 0);
  }
}

}  // namespace
}  // namespace ringgrad::test
