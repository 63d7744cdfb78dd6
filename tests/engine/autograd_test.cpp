#include "engine/autograd.h"

#include <gtest/gtest.h>

#include "engine/flat_parameters.h"
#include "engine/functions.h"
#include "engine/layers.h"
#include "kernels/backends.h"
#include "tests/support/compare.h"
#include "tests/support/expect_error.h"

namespace ringgrad::test {
namespace {

class AutogradTest : public testing::Test {
 protected:
  Tensor leaf(const std::vector<float>& values) {
    Tensor t = Tensor::from_host(*context_, {1, static_cast<Index>(values.size())}, values);
    t.set_requires_grad();
    return t;
  }
  // A scalar: the sum of a row, by a linear layer of ones.
  Tensor sum(const Tensor& x) {
    const std::vector<float> ones(static_cast<std::size_t>(x.size(1)), 1.0F);
    return linear(x, Tensor::from_host(*context_, {1, x.size(1)}, ones), Tensor());
  }

  std::unique_ptr<Context> context_ = kernels::open_context("cpu", 1);
};

TEST_F(AutogradTest, AddsUpAllPathsToALeaf) {
  const Tensor x = leaf({1, -2});
  backward(sum(add(add(x, x), relu(x))));
  EXPECT_EQ(x.grad().to_host<float>(), (std::vector<float>{3, 2}));
}

TEST_F(AutogradTest, AccumulatesOverCallsUntilCleared) {
  const Tensor x = leaf({1, 2});
  backward(sum(x));
  backward(sum(add(x, x)));
  EXPECT_EQ(x.grad().to_host<float>(), (std::vector<float>{3, 3}));
  clear_grad(x);
  EXPECT_FALSE(x.grad().defined());
  backward(sum(x));
  EXPECT_EQ(x.grad().to_host<float>(), (std::vector<float>{1, 1}));
}

TEST_F(AutogradTest, AGradientPassedToTwoInputsIsNotOverwritten) {
  const Tensor a = leaf({1, 1});
  const Tensor b = leaf({1, 1});
  const Tensor s = add(a, b);  // both get the same memory as their gradient
  backward(sum(add(s, a)));
  EXPECT_EQ(a.grad().to_host<float>(), (std::vector<float>{2, 2}));
  EXPECT_EQ(b.grad().to_host<float>(), (std::vector<float>{1, 1}));
}

TEST_F(AutogradTest, DepthCostsNoStack) {
  const Tensor x = leaf({1});
  Tensor deep = x;
  for (int i = 0; i < 100000; ++i) {
    deep = add(deep, x);
  }
  Tensor unused = deep;
  for (int i = 0; i < 100000; ++i) {
    unused = relu(unused);
  }
  unused = Tensor();  // destroyed without backward
  backward(sum(deep));
  EXPECT_EQ(x.grad().to_host<float>(), (std::vector<float>{100001}));
}

TEST_F(AutogradTest, TwiceOnTheSameResultIsAnError) {
  const Tensor x = leaf({1});
  const Tensor y = sum(relu(x));
  backward(y);
  EXPECT_TRUE(contains(error_of([&] { backward(y); }), "twice"));
  backward(sum(x));  // and the leaf is still usable
  EXPECT_EQ(x.grad().to_host<float>(), std::vector<float>{2});
}

TEST_F(AutogradTest, RefusesWhatHasNoGradient) {
  const Tensor x = leaf({1, 2});
  EXPECT_TRUE(contains(error_of([&] { backward(add(x, x)); }), "(1, 2)"));
  EXPECT_TRUE(contains(error_of([&] { backward(sum(x.detach())); }), "requires a gradient"));
}

// One weight under two biases: one gradient is fresh while the other one is added to.
TEST_F(AutogradTest, AWeightMayBeSharedAndABiasTrainedAlone) {
  const Tensor x = Tensor::from_host<float>(*context_, {1, 2}, {1, 2});
  const Tensor w = leaf({3, 4});
  Tensor b1 = Tensor::from_host<float>(*context_, {1}, {0});
  Tensor b2 = Tensor::from_host<float>(*context_, {1}, {0});
  b1.set_requires_grad();
  b2.set_requires_grad();
  backward(add(linear(x, w, b1), linear(x, w, b2)));
  EXPECT_EQ(w.grad().to_host<float>(), (std::vector<float>{2, 4}));
  EXPECT_EQ(b1.grad().to_host<float>(), std::vector<float>{1});
  EXPECT_EQ(b2.grad().to_host<float>(), std::vector<float>{1});
  backward(linear(x, w.detach(), b1));
  EXPECT_EQ(b1.grad().to_host<float>(), std::vector<float>{2});
}

TEST_F(AutogradTest, NoGradRecordsNothing) {
  const Tensor x = leaf({1});
  const NoGrad no_grad(*context_);
  EXPECT_FALSE(relu(x).requires_grad());
}

TEST_F(AutogradTest, HooksFireOnceEachInReverseOrderOfUse) {
  Linear first(2, 2);
  Linear second(2, 1);
  first.to(*context_, 1);
  second.to(*context_, 2);
  std::vector<std::string> fired;
  for (const auto& [name, parameter] : {std::pair{"first.weight", &first.weight},
                                        {"first.bias", &first.bias},
                                        {"second.weight", &second.weight},
                                        {"second.bias", &second.bias}}) {
    parameter->tensor.node()->hook = [&fired, name = std::string(name)] { fired.push_back(name); };
  }
  backward(second(relu(first(leaf({1, 2})))));
  ASSERT_EQ(fired.size(), 4U);
  EXPECT_EQ(fired[0].substr(0, 6), "second");
  EXPECT_EQ(fired[1].substr(0, 6), "second");
  EXPECT_EQ(fired[2].substr(0, 5), "first");
}

TEST_F(AutogradTest, SavedMemoryIsFreedDuringTheWalk) {
  const Tensor x = leaf(std::vector<float>(1000, 1.0F));
  const std::size_t before = context_->arena().statistics().bytes_in_use;
  backward(sum(relu(relu(relu(x)))));
  EXPECT_LE(context_->arena().statistics().bytes_in_use, before + 4096) << "x's gradient alone";
}

TEST_F(AutogradTest, ShapesThatDoNotFitAreNamed) {
  const auto tensor = [&](Shape shape) { return Tensor::zeros(*context_, shape); };
  EXPECT_EQ(error_of([&] {
              linear(tensor({2, 3}), tensor({4, 5}), Tensor());
            }),
            "linear: w has shape (4, 5); expected (4, 3)");
  EXPECT_EQ(error_of([&] {
              conv2d(tensor({1, 4, 4, 3}), tensor({8, 3, 3, 4}), Tensor());
            }),
            "conv2d: x (1, 4, 4, 3) has 3 channels, the filters (8, 3, 3, 4) take 4");
  EXPECT_TRUE(contains(error_of([&] {
                         conv2d(tensor({1, 2, 2, 3}), tensor({8, 5, 5, 3}), Tensor());
                       }),
                       "larger"));
  EXPECT_TRUE(contains(error_of([&] { max_pool2d(tensor({1, 4, 4, 1}), {2, 2, 2}); }), "pad 2"));
  EXPECT_TRUE(contains(error_of([&] { add(tensor({1}), tensor({2})); }), "expected (1)"));
}

TEST_F(AutogradTest, BatchNormRefusesOneValuePerChannel) {
  BatchNorm2d bn(4);
  bn.to(*context_, 0);
  const Tensor one = Tensor::zeros(*context_, {1, 1, 1, 4});
  EXPECT_TRUE(contains(error_of([&] { bn(one); }), "one value per channel"));
  EXPECT_EQ(bn.running_var.tensor.to_host<float>(), (std::vector<float>{1, 1, 1, 1}));
  bn.eval();
  const NoGrad no_grad(*context_);
  EXPECT_EQ(bn(one).shape(), one.shape());
}

}  // namespace
}  // namespace ringgrad::test
