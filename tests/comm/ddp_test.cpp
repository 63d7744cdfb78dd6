#include "comm/ddp.h"

#include <gtest/gtest.h>

#include "engine/functions.h"
#include "engine/layers.h"
#include "engine/sgd.h"
#include "kernels/backends.h"
#include "tests/support/compare.h"
#include "tests/support/expect_error.h"
#include "tests/support/random_data.h"
#include "tests/support/ranks.h"

namespace ringgrad::test {
namespace {

struct Perceptron : Module {
  Linear fc1{6, 8}, fc2{8, 3};
  Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
  void members(Members& m) override { m("fc1", fc1)("fc2", fc2); }
};

// Three steps over samples [begin, end) of a batch of 8; the weights afterwards.
std::vector<float> train(Context& context, comm::Communicator& communicator, Index begin, Index end,
                         std::uint64_t seed) {
  Perceptron model;
  model.to(context, seed);
  const FlatParameters parameters(context, model);
  SGD sgd(parameters, {0.1, 0.9, 0, false});
  comm::DistributedDataParallel ddp(parameters, communicator, {64 * sizeof(float)});
  EXPECT_EQ(ddp.bucket_count(), 4U) << "one for each parameter, at this size";
  for (std::uint64_t step = 0; step < 3; ++step) {
    const std::vector<float> all = uniform(8 * 6, step);
    const std::vector<std::int32_t> all_labels = integers<std::int32_t>(8, step, 0, 2);
    const Tensor x =
        Tensor::from_host(context, {end - begin, 6},
                          std::vector<float>(all.begin() + begin * 6, all.begin() + end * 6));
    const Tensor labels = Tensor::from_host(
        context, {end - begin},
        std::vector<std::int32_t>(all_labels.begin() + begin, all_labels.begin() + end));
    sgd.clear_gradients();
    backward(cross_entropy(model(x), labels));
    ddp.finish();
    sgd.step();
  }
  return parameters.values().to_host<float>();
}

TEST(Ddp, TwoRanksOfFourEqualOneRankOfEight) {
  for (const char* device : {"cpu", "emulated"}) {
    const auto single = kernels::open_context(device, 1);
    const auto alone = comm::make_single_communicator();
    const std::vector<float> expected = train(*single, *alone, 0, 8, 1);
    auto contexts = kernels::open_contexts(device, 2, 1);
    std::vector<std::vector<float>> got(2);
    run_ranks(2, [&](comm::Communicator& c) {
      const auto rank = static_cast<std::size_t>(c.rank());
      contexts[rank]->device().make_current();
      // Rank 1's own seed must not matter: rank 0's weights go to all.
      got[rank] = train(*contexts[rank], c, 4 * c.rank(), 4 * c.rank() + 4,
                        static_cast<std::uint64_t>(1 + c.rank()));
    });
    EXPECT_EQ(got[0], got[1]) << device << ": weights never drift apart";
    EXPECT_TRUE(close(got[0], expected)) << device;
  }
}

TEST(Ddp, AParameterWithoutAPartIsNamed) {
  const auto context = kernels::open_context("cpu", 1);
  Perceptron model;
  model.to(*context, 1);
  const FlatParameters parameters(*context, model);
  const auto alone = comm::make_single_communicator();
  comm::DistributedDataParallel ddp(parameters, *alone);
  const Tensor x = Tensor::zeros(*context, {2, 6});
  const Tensor labels = Tensor::from_host<std::int32_t>(*context, {2}, {0, 1});
  backward(cross_entropy(model.fc1(x), labels));
  EXPECT_TRUE(contains(error_of([&] { ddp.finish(); }), "parameter fc2.bias had no part"));
}

}  // namespace
}  // namespace ringgrad::test
