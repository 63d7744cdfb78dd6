// Whole training steps: memory, reproducibility, and the skeleton's way through every backend.
#include <gtest/gtest.h>

#include "engine/layers.h"
#include "engine/sgd.h"
#include "kernels/backends.h"
#include "models/registry.h"
#include "runtime/cuda/device.h"
#include "tests/support/compare.h"
#include "tests/support/random_data.h"

namespace ringgrad::test {
namespace {

struct Perceptron : Module {
  Linear fc1{12, 16}, fc2{16, 3};
  Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
  void members(Members& m) override { m("fc1", fc1)("fc2", fc2); }
};

struct Trained {
  std::vector<float> losses;
  std::uint64_t digest;
  std::int64_t allocations_after_two_steps, allocations;
};

Trained train(Context& context, Module& model, Shape input, Index classes, int steps) {
  model.to(context, 11);
  const FlatParameters parameters(context, model);
  SGD sgd(parameters, {0.05, 0.9, 1e-4, false});
  Trained result{};
  for (int step = 0; step < steps; ++step) {
    const auto seed = static_cast<std::uint64_t>(step);
    const Tensor x = Tensor::from_host(context, input, uniform(input.count(), seed));
    const Tensor labels =
        Tensor::from_host(context, {input[0]},
                          integers<std::int32_t>(input[0], seed, 0, static_cast<int>(classes) - 1));
    sgd.clear_gradients();
    const Tensor loss = cross_entropy(model(x), labels);
    backward(loss);
    sgd.step();
    result.losses.push_back(static_cast<float>(loss.item()));
    result.allocations = context.arena().statistics().system_allocations;
    result.allocations_after_two_steps =
        step == 1 ? result.allocations : result.allocations_after_two_steps;
  }
  const std::vector<float> values = parameters.values().to_host<float>();
  const auto host = kernels::open_context("reference", 1);
  result.digest = hash(Tensor::from_host(*host, parameters.values().shape(), values));
  return result;
}

TEST(Step, TheSamePerceptronTrainsOnEveryBackend) {
  std::vector<float> reference_losses;
  for (const char* device : {"reference", "cpu", "emulated"}) {
    const auto context = kernels::open_context(device, 2);
    Perceptron model;
    const Trained trained = train(*context, model, {20, 12}, 3, 6);
    if (reference_losses.empty()) {
      reference_losses = trained.losses;
      EXPECT_LT(trained.losses.back(), 2);
    }
    EXPECT_TRUE(close(trained.losses, reference_losses, {0, 1e-4})) << device;
  }
}

std::uint64_t digest_of(const char* device, const char* name, Shape input, int steps) {
  const auto context = kernels::open_context(device, 2);
  const auto model = make_model(name, {5, false});
  return train(*context, *model, input, 5, steps).digest;
}

TEST(Step, RunsRepeatToTheBit) {
  for (const char* device : {"cpu", "emulated"}) {
    EXPECT_EQ(digest_of(device, "cifar-net", {3, 32, 32, 3}, 2),
              digest_of(device, "cifar-net", {3, 32, 32, 3}, 2))
        << device;
  }
  EXPECT_EQ(digest_of("cpu", "resnet18", {4, 64, 64, 3}, 2),
            digest_of("cpu", "resnet18", {4, 64, 64, 3}, 2));
}

// What CUDA leaves open: which thread, block and stream comes first.
void expect_equal_in_every_order(const char* name, Shape input, int steps) {
  emulated::set_order("forward");
  const std::uint64_t expected = digest_of("emulated", name, input, steps);
  for (const char* order : {"reverse", "shuffled:1", "shuffled:2"}) {
    emulated::set_order(order);
    EXPECT_EQ(digest_of("emulated", name, input, steps), expected) << name << ", " << order;
  }
  emulated::set_order("forward");
}

TEST(Step, BitsDoNotDependOnTheOrderOfThreadsBlocksAndStreams) {
  expect_equal_in_every_order("cifar-net", {2, 32, 32, 3}, 2);
}
TEST(FullStep, BitsOfResNetDoNotDependOnTheOrderOfThreadsBlocksAndStreams) {
  expect_equal_in_every_order("resnet18", {3, 32, 32, 3}, 2);
}

TEST(Step, AllocatesNothingAfterTheFirst) {
  for (const auto& [device, name] :
       {std::pair{"cpu", "cifar-net"}, {"cpu", "resnet18"}, {"emulated", "cifar-net"}}) {
    const auto context = kernels::open_context(device, 2);
    const auto model = make_model(name, {10, false});
    const Trained trained = train(*context, *model, {4, 32, 32, 3}, 10, 4);
    EXPECT_EQ(trained.allocations, trained.allocations_after_two_steps) << device << ", " << name;
  }
}

}  // namespace
}  // namespace ringgrad::test
