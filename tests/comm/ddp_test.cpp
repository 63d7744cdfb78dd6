#include "comm/ddp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "engine/functions.h"
#include "engine/layers.h"
#include "engine/sgd.h"
#include "kernels/backends.h"
#include "models/registry.h"
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
  comm::DistributedDataParallel ddp(parameters, communicator,
                                    {64 * sizeof(float), 64 * sizeof(float)});
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

struct CifarRun {
  std::vector<float> losses;  // means over this rank's images
  std::uint64_t weights;
};

// 20 steps of CifarNet on images [begin, end) of one batch of 8.
CifarRun train_cifar_net(Context& context, comm::Communicator& communicator, Index begin,
                         Index end) {
  constexpr Index kImage = Index{32} * 32 * 3;
  const auto model = make_model("cifar-net", {10, false});
  model->to(context, 1);
  const FlatParameters parameters(context, *model);
  SGD sgd(parameters, {0.01, 0.9, 0, false});
  comm::DistributedDataParallel ddp(parameters, communicator);
  CifarRun run;
  const std::vector<float> all = uniform(8 * kImage, 1);
  const std::vector<std::int32_t> labels = integers<std::int32_t>(8, 2, 0, 9);
  for (int step = 0; step < 20; ++step) {
    const Tensor x = Tensor::from_host(
        context, {end - begin, 32, 32, 3},
        std::vector<float>(all.begin() + begin * kImage, all.begin() + end * kImage));
    const Tensor mine =
        Tensor::from_host(context, {end - begin},
                          std::vector<std::int32_t>(labels.begin() + begin, labels.begin() + end));
    sgd.clear_gradients();
    const Tensor loss = cross_entropy((*model)(x), mine);
    backward(loss);
    ddp.finish();
    sgd.step();
    run.losses.push_back(static_cast<float>(loss.item()));
  }
  run.weights = hash(parameters.values());
  return run;
}

TEST(FullDdp, FourEmulatedK80sTrainAsOneDeviceWithTheFourfoldBatch) {
  auto contexts = kernels::open_contexts("emulated:k80x4", 4, 1);
  std::vector<CifarRun> runs(4);
  run_ranks(4, [&](comm::Communicator& c) {
    const auto rank = static_cast<std::size_t>(c.rank());
    contexts[rank]->device().make_current();
    runs[rank] = train_cifar_net(*contexts[rank], c, 2 * c.rank(), 2 * c.rank() + 2);
  });
  const auto alone = comm::make_single_communicator();
  contexts[0]->device().make_current();
  const CifarRun one = train_cifar_net(*contexts[0], *alone, 0, 8);
  for (std::size_t step = 0; step < one.losses.size(); ++step) {
    float mean = 0;
    for (const CifarRun& run : runs) {
      mean += run.losses[step] / 4;
    }
    EXPECT_NEAR(mean, one.losses[step], 1e-3 * static_cast<double>(one.losses[step])) << step;
  }
  for (const CifarRun& run : runs) {
    EXPECT_EQ(run.weights, runs[0].weights);
  }
  EXPECT_LT(one.losses.back(), one.losses.front());
}

// What a step leaves behind on images [begin, end) of 4: gradients, then buffers.
template <class T>
std::vector<double> step_with_batch_norm(Context& context, comm::Communicator& communicator,
                                         Module& model, Index begin, Index end) {
  model.to(context, 1, dtype_of<T>());
  comm::synchronize_batch_norm(model, communicator);
  const FlatParameters parameters(context, model);
  comm::DistributedDataParallel ddp(parameters, communicator);
  constexpr Index kSide = 8;
  constexpr Index kImage = kSide * kSide * 3;
  const std::vector<float> all = uniform(4 * kImage, 1);
  const Tensor x =
      Tensor::from_host(context, {end - begin, kSide, kSide, 3},
                        std::vector<T>(all.begin() + begin * kImage, all.begin() + end * kImage));
  const std::vector<std::int32_t> labels{0, 1, 2, 1};
  const Tensor mine =
      Tensor::from_host(context, {end - begin},
                        std::vector<std::int32_t>(labels.begin() + begin, labels.begin() + end));
  backward(cross_entropy(model(x), mine));
  ddp.finish();
  const std::vector<T> gradients = parameters.gradients().template to_host<T>();
  std::vector<double> result(gradients.begin(), gradients.end());
  for (const auto& [name, buffer] : model.all_members().buffers) {
    const std::vector<T> values = buffer->tensor.template to_host<T>();
    result.insert(result.end(), values.begin(), values.end());
  }
  return result;
}

// A convolution, a batch norm with and without residual, one value per channel at the end.
struct SmallBatchNormNet : Module {
  Conv2d conv{3, 5, 3, {2, 1, false}};
  BatchNorm2d bn1{5}, bn2{5};
  Linear fc{5, 3};
  Tensor forward(const Tensor& x) override {
    const Tensor y = bn1.relu(conv(x));
    return fc(global_avg_pool2d(bn2.add_relu(y, y)));
  }
  void members(Members& m) override { m("conv", conv)("bn1", bn1)("bn2", bn2)("fc", fc); }
};

template <class T>
void expect_ranks_equal_one(const char* device, int ranks, const Tolerance& tolerance,
                            const std::function<std::unique_ptr<Module>()>& make) {
  const auto single = kernels::open_context(device, 1);
  const auto alone = comm::make_single_communicator();
  const auto model = make();
  const std::vector<double> expected = step_with_batch_norm<T>(*single, *alone, *model, 0, 4);
  auto contexts = kernels::open_contexts(device, ranks, 1);
  run_ranks(ranks, [&](comm::Communicator& c) {
    const auto own = make();
    const Index each = 4 / ranks;
    EXPECT_TRUE(close(step_with_batch_norm<T>(*contexts[static_cast<std::size_t>(c.rank())], c,
                                              *own, c.rank() * each, (c.rank() + 1) * each),
                      expected, tolerance));
  });
}

TEST(Ddp, WithSynchronizedBatchNormRanksEqualOne) {
  const auto make = [] { return std::make_unique<SmallBatchNormNet>(); };
  for (const int ranks : {2, 4}) {
    expect_ranks_equal_one<float>("cpu", ranks, kFloat, make);
    expect_ranks_equal_one<float>("emulated", ranks, kFloat, make);
    expect_ranks_equal_one<double>("reference", ranks, {1e-12, 1e-10}, make);
  }
}

// On 8x8 images the last stage has one value per channel and image.
TEST(FullDdp, WithSynchronizedBatchNormResNetRanksEqualOne) {
  expect_ranks_equal_one<double>("reference", 4, {1e-11, 1e-9}, [] {
    return make_model("resnet18", {3, true});
  });
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

// What a step gives on two ranks of which the second leaves fc2 out: each rank's error, and its
// gradient of fc2.bias.
struct UnevenStep {
  std::vector<std::string> errors = std::vector<std::string>(2);
  std::vector<std::vector<float>> bias = std::vector<std::vector<float>>(2);
};

UnevenStep uneven_step(bool find_unused_parameters) {
  UnevenStep step;
  run_ranks(2, [&](comm::Communicator& c) {
    const auto rank = static_cast<std::size_t>(c.rank());
    const auto context = kernels::open_context("cpu", 1);
    Perceptron model;
    model.to(*context, 1);
    const FlatParameters parameters(*context, model);
    comm::DistributedDataParallel::Options options;
    options.find_unused_parameters = find_unused_parameters;
    comm::DistributedDataParallel ddp(parameters, c, options);
    const Tensor x = Tensor::from_host(*context, {2, 6}, uniform(12, 3));
    const Tensor labels = Tensor::from_host<std::int32_t>(*context, {2}, {0, 1});
    step.errors[rank] = error_of([&] {
      try {
        backward(cross_entropy(rank == 0 ? model(x) : model.fc1(x), labels));
        ddp.finish();
      } catch (const Error& error) {
        c.abort(concat("rank ", rank, ": ", error.what()));
        throw;
      }
    });
    step.bias[rank] = parameters.gradients().range(0, {3}).to_host<float>();
  });
  return step;
}

TEST(Ddp, UnusedParametersCountAsZeroIfAllowed) {
  const UnevenStep step = uneven_step(true);
  EXPECT_EQ(step.errors, std::vector<std::string>(2, "no error"));
  EXPECT_EQ(step.bias[0], step.bias[1]);
  float largest = 0;
  for (const float g : step.bias[0]) {
    largest = std::max(largest, std::abs(g));
  }
  EXPECT_GT(largest, 0) << "rank 0's half arrived";
  EXPECT_LT(largest, 0.5F) << "and only half of it";
}

TEST(Ddp, AnUnusedParameterFailsEveryRank) {
  const UnevenStep step = uneven_step(false);
  EXPECT_TRUE(contains(step.errors[0], "rank 1: parameter fc2.bias had no part"));
  EXPECT_TRUE(contains(step.errors[1], "parameter fc2.bias had no part"));
}

TEST(Ddp, AccumulatedBatchesEqualTheirUnion) {
  const auto context = kernels::open_context("cpu", 1);
  const auto alone = comm::make_single_communicator();
  const auto gradients = [&](const std::vector<Index>& sizes) {
    Perceptron model;
    model.to(*context, 1);
    const FlatParameters parameters(*context, model);
    comm::DistributedDataParallel ddp(parameters, *alone);
    parameters.clear_gradients();
    Index begin = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const std::vector<float> all = uniform(8 * 6, 1);
      const std::vector<std::int32_t> all_labels = integers<std::int32_t>(8, 1, 0, 2);
      const Index n = sizes[i];
      const Tensor x = Tensor::from_host(
          *context, {n, 6},
          std::vector<float>(all.begin() + begin * 6, all.begin() + (begin + n) * 6));
      const Tensor labels = Tensor::from_host(
          *context, {n},
          std::vector<std::int32_t>(all_labels.begin() + begin, all_labels.begin() + begin + n));
      ddp.set_sync(i + 1 == sizes.size());
      backward(cross_entropy(model(x), labels), static_cast<double>(n) / 8);
      begin += n;
    }
    ddp.finish();
    return parameters.gradients().to_host<float>();
  };
  EXPECT_TRUE(close(gradients({3, 3, 2}), gradients({8})));
}

TEST(Ddp, WeightsThatDriftedApartAreNoticed) {
  run_ranks(3, [&](comm::Communicator& c) {
    const auto context = kernels::open_context("cpu", 1);
    Perceptron model;
    model.to(*context, 1);
    const FlatParameters parameters(*context, model);
    comm::DistributedDataParallel ddp(parameters, c);
    EXPECT_EQ(error_of([&] { ddp.check_equal(model); }), "no error");
    if (c.rank() == 2) {
      parameters.values().data<float>()[5] += 1e-7F;
    }
    EXPECT_TRUE(contains(error_of([&] { ddp.check_equal(model); }),
                         "drifted apart: rank 2 differs from rank 0"));
  });
}

TEST(Ddp, DifferentModelsFailOnEveryRankWithTheSameMessage) {
  std::vector<std::string> errors(2);
  run_ranks(2, [&](comm::Communicator& c) {
    const auto context = kernels::open_context("cpu", 1);
    Perceptron model;
    if (c.rank() == 1) {
      model.fc2 = Linear(8, 300);
    }
    model.to(*context, 1);
    const FlatParameters parameters(*context, model);
    errors[static_cast<std::size_t>(c.rank())] =
        error_of([&] { comm::DistributedDataParallel(parameters, c); });
  });
  EXPECT_TRUE(contains(errors[0], "the ranks disagree: rank 0 calls broadcast"));
  EXPECT_EQ(errors[0], errors[1]);
}

// Gradients far from 1 in both directions, on many ranks.
TEST(Ddp, HalvesKeepWhatIsLargeAndWhatIsSmall) {
  for (const Path path : {Path::shared, Path::messages}) {
    run_ranks(
        8,
        [&](comm::Communicator& c) {
          const auto context = kernels::open_context("cpu", 1);
          const Stream& stream = context->compute_stream();
          const auto average = [&](float mine) {
            std::vector<float> values(5, mine);
            c.all_reduce_as_half(values.data(), 5, stream)->wait(stream);
            return values[3];
          };
          EXPECT_NEAR(average(40000), 40000, 400);
          EXPECT_NEAR(average(2e-7F), 2e-7, 2e-9);
          EXPECT_NEAR(average(c.rank() == 0 ? 8e-7F : 0), 1e-7, 1e-9);
          EXPECT_EQ(average(0), 0);
          EXPECT_TRUE(std::isnan(average(c.rank() == 3 ? NAN : 1)));
        },
        path);
  }
}

// Each of the three rounds up when it is scaled, and each sum does.
TEST(Ddp, RoundingOfHalvesNeverPassesTheLargest) {
  run_ranks(3, [](comm::Communicator& c) {
    const auto context = kernels::open_context("cpu", 1);
    for (const float value : {21833.0F, 65504.0F, 65519.0F, 3e38F}) {
      float mine = value;
      c.all_reduce_as_half(&mine, 1, context->compute_stream())->wait(context->compute_stream());
      EXPECT_NEAR(mine / value, 1, 1e-3);
    }
  });
}

}  // namespace
}  // namespace ringgrad::test
