// Gradients of every differentiable operation against central differences, in double on the
// reference.
#include <gtest/gtest.h>

#include <functional>

#include "engine/autograd.h"
#include "engine/functions.h"
#include "kernels/backends.h"
#include "tests/support/compare.h"
#include "tests/support/random_data.h"

namespace ringgrad::test {
namespace {

class GradientTest : public testing::Test {
 protected:
  using Function = std::function<Tensor(const std::vector<Tensor>&)>;

  Tensor input(Shape shape, std::uint64_t seed, double low = -1, double high = 1) {
    return Tensor::from_host(*context_, shape, uniform<double>(shape.count(), seed, low, high));
  }

  // f's output is projected to a scalar by fixed random weights.
  double value(const Function& f, const std::vector<Tensor>& inputs) {
    const NoGrad no_grad(*context_);
    const std::vector<double> y = f(inputs).to_host<double>();
    const std::vector<double> weights = uniform<double>(static_cast<Index>(y.size()), 99);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      sum += y[i] * weights[i];
    }
    return sum;
  }

  void check(const Function& f, const std::vector<Tensor>& inputs) {
    std::vector<Tensor> leaves = inputs;
    for (Tensor& leaf : leaves) {
      leaf.set_requires_grad();
    }
    const Tensor y = f(leaves);
    const Tensor flat = y.shape().rank() == 0 ? y : y.view({1, y.count()});
    Tensor projected = flat;
    projected.set_node(y.node());
    const Tensor weights =
        Tensor::from_host(*context_, {1, y.count()}, uniform<double>(y.count(), 99));
    Tensor scalar = Tensor::empty(*context_, {}, DType::f64);
    scalar.fill_zero();
    record(scalar, {&y}, [weights, shape = y.shape()](Gradients& g) {
      Tensor gradient = g.fresh(0, shape);
      gradient.copy_from(weights.view(shape));
    });
    backward(scalar);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::vector<double> at = inputs[i].to_host<double>();
      std::vector<double> numeric(at.size());
      constexpr double kStep = 1e-5;
      for (std::size_t j = 0; j < at.size(); ++j) {
        double sides[2];
        for (int side = 0; side < 2; ++side) {
          std::vector<double> moved = at;
          moved[j] += side == 0 ? kStep : -kStep;
          std::vector<Tensor> arguments = inputs;
          arguments[i] = Tensor::from_host(*context_, inputs[i].shape(), moved);
          sides[side] = value(f, arguments);
        }
        numeric[j] = (sides[0] - sides[1]) / (2 * kStep);
      }
      ASSERT_TRUE(leaves[i].grad().defined()) << "input " << i;
      // Central differences are good to step^2 and to the rounding of f over the step: some 1e-9.
      EXPECT_TRUE(close(leaves[i].grad().to_host<double>(), numeric, {1e-7, 1e-7}))
          << "input " << i;
    }
  }

  std::unique_ptr<Context> context_ = kernels::open_context("reference", 1);
};

TEST_F(GradientTest, Linear) {
  check([](const auto& t) { return linear(t[0], t[1], t[2]); },
        {input({3, 4}, 1), input({5, 4}, 2), input({5}, 3)});
}

TEST_F(GradientTest, Conv2d) {
  check(
      [](const auto& t) {
        return conv2d(t[0], t[1], t[2], {1, 1});
      },
      {input({2, 4, 3, 2}, 1), input({3, 3, 3, 2}, 2), input({3}, 3)});
  check(
      [](const auto& t) {
        return conv2d(t[0], t[1], Tensor(), {2, 1});
      },
      {input({1, 5, 4, 2}, 1), input({2, 3, 3, 2}, 2)});
  check(
      [](const auto& t) {
        return conv2d(t[0], t[1], Tensor(), {2, 0});
      },
      {input({1, 4, 4, 2}, 1), input({2, 1, 1, 2}, 2)});
}

TEST_F(GradientTest, MaxPool2d) {
  for (const bool relu : {false, true}) {
    check(
        [&](const auto& t) {
          return max_pool2d(t[0], {3, 2, 1, relu});
        },
        {input({2, 5, 6, 3}, 1)});
  }
}

TEST_F(GradientTest, GlobalAvgPoolAndFlatten) {
  check([](const auto& t) { return global_avg_pool2d(t[0]); }, {input({2, 3, 4, 5}, 1)});
  check([](const auto& t) { return flatten(t[0]); }, {input({2, 3, 4, 5}, 1)});
}

TEST_F(GradientTest, BatchNorm) {
  for (const bool relu : {false, true}) {
    for (const bool residual : {false, true}) {
      std::vector<Tensor> inputs = {input({2, 3, 3, 4}, 1), input({4}, 2, 0.5, 1.5), input({4}, 3)};
      if (residual) {
        inputs.push_back(input({2, 3, 3, 4}, 4));
      }
      check(
          [&](const auto& t) {
            Tensor mean = Tensor::zeros(*context_, {4}, DType::f64);
            Tensor var = Tensor::zeros(*context_, {4}, DType::f64);
            return batch_norm(t[0], t[1], t[2], mean, var, residual ? t[3] : Tensor(),
                              {1e-5, 0.1, true, relu});
          },
          inputs);
    }
  }
}

TEST_F(GradientTest, ReluAndAdd) {
  check([](const auto& t) { return relu(t[0]); }, {input({3, 7}, 1)});
  check([](const auto& t) { return add(t[0], t[1]); }, {input({3, 7}, 1), input({3, 7}, 2)});
  check([](const auto& t) { return add(t[0], add(relu(t[0]), t[0])); }, {input({3, 7}, 1)});
}

TEST_F(GradientTest, CrossEntropy) {
  const Tensor labels = Tensor::from_host<std::int32_t>(*context_, {4}, {2, 0, -100, 1});
  for (const double smoothing : {0.0, 0.2}) {
    check(
        [&](const auto& t) {
          return cross_entropy(t[0], labels, {smoothing, -100});
        },
        {input({4, 3}, 1, -3, 3)});
  }
}

}  // namespace
}  // namespace ringgrad::test
