#include "engine/sgd.h"

#include <gtest/gtest.h>

#include "engine/functions.h"
#include "engine/layers.h"
#include "kernels/backends.h"
#include "tests/support/compare.h"
#include "tests/support/expect_error.h"

namespace ringgrad::test {
namespace {

TEST(Sgd, AParameterThatBackwardMissedHasGradientZero) {
  const auto context = kernels::open_context("cpu", 1);
  struct Net : Module {
    Linear used{2, 1}, unused{2, 1};
    Tensor forward(const Tensor& x) override { return used(x); }
    void members(Members& m) override { m("used", used)("unused", unused); }
  } net;
  net.to(*context, 1);
  const FlatParameters flat(*context, net);
  SGD sgd(flat, {0.1, 0.9, 0, false});
  const std::vector<float> before = net.unused.weight.tensor.to_host<float>();
  for (int step = 0; step < 2; ++step) {
    sgd.clear_gradients();
    backward(net(Tensor::from_host<float>(*context, {1, 2}, {1, 2})));
    EXPECT_EQ(flat.settle(), (std::vector<std::string>{"unused.bias", "unused.weight"}));
    sgd.step();
  }
  EXPECT_EQ(net.unused.weight.tensor.to_host<float>(), before);
  EXPECT_NE(net.used.bias.tensor.to_host<float>(), std::vector<float>{0});
}

TEST(Sgd, RefusesSettingsWithoutMeaning) {
  const auto context = kernels::open_context("cpu", 1);
  Linear net(1, 1);
  net.to(*context, 1);
  const FlatParameters flat(*context, net);
  EXPECT_TRUE(contains(error_of([&] { SGD(flat, {0.1, -1, 0, false}); }), "momentum -1"));
  EXPECT_TRUE(contains(error_of([&] { SGD(flat, {0.1, 0, 0, true}); }), "Nesterov"));
}

}  // namespace
}  // namespace ringgrad::test
