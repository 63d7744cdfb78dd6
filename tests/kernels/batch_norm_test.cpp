#include "tests/support/backend_test.h"

namespace ringgrad::test {
namespace {

using namespace kernels;

class BatchNormTest : public BackendTest {
 protected:
  struct Case {
    Index m, c;
    bool relu, residual;
    double mean = 0;  // of the inputs
  };
  struct Results {
    std::vector<float> y, running, saved;
  };

  static Results forward(Context& context, const Case& k) {
    DeviceArray<float> x(context, uniform(k.m * k.c, 1, k.mean - 1, k.mean + 2));
    DeviceArray<float> gamma(context, uniform(k.c, 2, 0.5, 1.5)), beta(context, uniform(k.c, 3));
    DeviceArray<float> residual(context, uniform(k.m * k.c, 4));
    DeviceArray<float> running_mean(context, uniform(k.c, 5)),
        running_var(context, uniform(k.c, 6, 0.5, 2));
    DeviceArray<float> mean(context, unwritten<float>(k.c)),
        inv_std(context, unwritten<float>(k.c));
    DeviceArray<float> y(context, unwritten<float>(k.m * k.c));
    run(context,
        BatchNormForward<float>{k.m, k.c, k.relu, 1e-5F, 0.1F, x.get(), gamma.get(), beta.get(),
                                k.residual ? residual.get() : nullptr, running_mean.get(),
                                running_var.get(), mean.get(), inv_std.get(), y.get()});
    return {y.host(), joined(running_mean.host(), running_var.host()),
            joined(mean.host(), inv_std.host())};
  }

  static std::vector<float> inference(Context& context, const Case& k) {
    DeviceArray<float> x(context, uniform(k.m * k.c, 1)), gamma(context, uniform(k.c, 2));
    DeviceArray<float> beta(context, uniform(k.c, 3)), residual(context, uniform(k.m * k.c, 4));
    DeviceArray<float> mean(context, uniform(k.c, 5)), var(context, uniform(k.c, 6, 0.5, 2));
    DeviceArray<float> y(context, unwritten<float>(k.m * k.c));
    run(context, BatchNormInference<float>{k.m, k.c, k.relu, 1e-5F, x.get(), gamma.get(),
                                           beta.get(), k.residual ? residual.get() : nullptr,
                                           mean.get(), var.get(), y.get()});
    return y.host();
  }

  // dx, dresidual, dgamma, dbeta behind one another.
  static std::vector<float> backward(Context& context, const Case& k, GradMode mode) {
    const Index n = k.m * k.c;
    DeviceArray<float> x(context, uniform(n, 1, k.mean - 1, k.mean + 2)), y(context, uniform(n, 7));
    DeviceArray<float> dy(context, uniform(n, 8)), gamma(context, uniform(k.c, 2, 0.5, 1.5));
    DeviceArray<float> mean(context, uniform(k.c, 9, k.mean, k.mean + 1)),
        inv_std(context, uniform(k.c, 10, 0.5, 2));
    DeviceArray<float> dx(context, unwritten<float>(n)), dresidual(context, unwritten<float>(n));
    const bool add = mode == GradMode::accumulate;
    DeviceArray<float> dgamma(context, add ? uniform(k.c, 11) : unwritten<float>(k.c));
    DeviceArray<float> dbeta(context, add ? uniform(k.c, 12) : unwritten<float>(k.c));
    run(context, BatchNormBackward<float>{k.m, k.c, x.get(), k.relu ? y.get() : nullptr, dy.get(),
                                          gamma.get(), mean.get(), inv_std.get(), dx.get(),
                                          k.residual ? dresidual.get() : nullptr, dgamma.get(),
                                          dbeta.get(), mode});
    std::vector<float> all = joined(dx.host(), joined(dgamma.host(), dbeta.host()));
    return k.residual ? joined(all, dresidual.host()) : all;
  }

  // The same in two halves, over rows that two replicas share: [0, m/3) and the rest.
  static Results forward_from_sums(Context& context, const Case& k) {
    const std::vector<float> all = uniform(k.m * k.c, 1, k.mean - 1, k.mean + 2);
    const std::vector<float> residuals = uniform(k.m * k.c, 4);
    const std::vector<float> running = uniform(k.c, 5);
    std::vector<double> sums(static_cast<std::size_t>(2 * k.c + 1));
    const Index cut = k.m / 3;
    for (const auto& [begin, end] : {std::pair{Index{0}, cut}, {cut, k.m}}) {
      DeviceArray<float> x(context, rows(all, k.c, begin, end)), mean(context, running);
      DeviceArray<double> own(context, unwritten<double>(2 * k.c + 1));
      run(context, BatchNormSums<float>{end - begin, k.c, x.get(), mean.get(), own.get()});
      const std::vector<double> part = own.host();
      for (std::size_t i = 0; i < sums.size(); ++i) {
        sums[i] += part[i];
      }
    }
    Results results;
    for (const auto& [begin, end] : {std::pair{Index{0}, cut}, {cut, k.m}}) {
      DeviceArray<float> x(context, rows(all, k.c, begin, end)),
          gamma(context, uniform(k.c, 2, 0.5, 1.5));
      DeviceArray<float> beta(context, uniform(k.c, 3)),
          residual(context, rows(residuals, k.c, begin, end));
      DeviceArray<float> running_mean(context, running),
          running_var(context, uniform(k.c, 6, 0.5, 2));
      DeviceArray<float> mean(context, unwritten<float>(k.c)),
          inv_std(context, unwritten<float>(k.c));
      DeviceArray<float> y(context, unwritten<float>((end - begin) * k.c));
      DeviceArray<double> total(context, sums);
      run(context, BatchNormForwardFromSums<float>{
                       {end - begin, k.c, k.relu, 1e-5F, 0.1F, x.get(), gamma.get(), beta.get(),
                        k.residual ? residual.get() : nullptr, running_mean.get(),
                        running_var.get(), mean.get(), inv_std.get(), y.get()},
                       total.get()});
      results.y = joined(results.y, y.host());
      results.running = joined(running_mean.host(), running_var.host());
      results.saved = joined(mean.host(), inv_std.host());
    }
    return results;
  }

  static std::vector<float> rows(const std::vector<float>& all, Index c, Index begin, Index end) {
    return {all.begin() + begin * c, all.begin() + end * c};
  }

  static std::vector<float> joined(std::vector<float> a, const std::vector<float>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }
};

TEST_P(BatchNormTest, MatchesReferenceOnHardShapes) {
  RINGGRAD_NEEDS(BatchNormForward<float>);
  for (const auto& [m, c] : {std::pair{2, 1},
                             {3, 5},
                             {127, 16},
                             {128, 31},
                             {129, 33},
                             {1000, 64},
                             {4, 515},
                             {5003, 7}}) {
    if (kRaceChecked && m * c > 4500) {
      continue;
    }
    for (const bool relu : {false, true}) {
      for (const bool residual : {false, true}) {
        SCOPED_TRACE(concat("m ", m, " c ", c, " relu ", relu, " residual ", residual));
        const Case k{m, c, relu, residual};
        const Results got = forward(*context_, k);
        const Results expected = forward(*reference_, k);
        EXPECT_TRUE(close(got.y, expected.y));
        EXPECT_TRUE(close(got.running, expected.running));
        EXPECT_TRUE(close(got.saved, expected.saved));
        EXPECT_TRUE(close(inference(*context_, k), inference(*reference_, k)));
        for (const GradMode mode : {GradMode::overwrite, GradMode::accumulate}) {
          EXPECT_TRUE(close(backward(*context_, k, mode), backward(*reference_, k, mode)));
        }
      }
    }
  }
}

// Replicas that add their sums up see one batch.
TEST_P(BatchNormTest, HalvesOfTheRowsGiveTheWhole) {
  RINGGRAD_NEEDS(BatchNormForwardFromSums<float>);
  for (const auto& [m, c] : {std::pair{3, 5}, {127, 16}, {128, 31}, {1000, 64}, {4, 515}}) {
    for (const bool fused : {false, true}) {
      SCOPED_TRACE(concat("m ", m, " c ", c, " fused ", fused));
      const Case k{m, c, fused, fused, 3};
      const Results got = forward_from_sums(*context_, k);
      const Results expected = forward(*reference_, k);
      EXPECT_TRUE(close(got.y, expected.y));
      EXPECT_TRUE(close(got.running, expected.running));
      EXPECT_TRUE(close(got.saved, expected.saved));
    }
  }
}

// A mean of 1000 with a deviation of 1: squares of raw values would lose the variance in float.
TEST_P(BatchNormTest, SurvivesALargeMean) {
  RINGGRAD_NEEDS(BatchNormForward<float>);
  const Case k{4096, 24, false, false, 1000};
  const std::vector<float> expected = forward(*reference_, k).y;
  EXPECT_TRUE(close(forward(*context_, k).y, expected, {1e-3, 1e-3}));
  EXPECT_TRUE(close(forward_from_sums(*context_, k).y, expected, {1e-3, 1e-3}));
}

TEST_P(BatchNormTest, RunningStatistics) {
  RINGGRAD_NEEDS(BatchNormForward<float>);
  DeviceArray<float> x(*context_, {1, 2, 3, 4}), gamma(*context_, {1}), beta(*context_, {0});
  DeviceArray<float> running_mean(*context_, {0}), running_var(*context_, {1});
  DeviceArray<float> mean(*context_, {0}), inv_std(*context_, {0}), y(*context_, {0, 0, 0, 0});
  run(*context_, BatchNormForward<float>{4, 1, false, 1e-5F, 0.1F, x.get(), gamma.get(), beta.get(),
                                         nullptr, running_mean.get(), running_var.get(), mean.get(),
                                         inv_std.get(), y.get()});
  EXPECT_TRUE(close(running_mean.host(), std::vector<float>{0.25F}));
  EXPECT_TRUE(close(running_var.host(), std::vector<float>{1.066667F}));
}

TEST_P(BatchNormTest, AnEmptyBatchChangesNothing) {
  RINGGRAD_NEEDS(BatchNormForward<float>);
  const Results got = forward(*context_, {0, 3, true, false});
  EXPECT_TRUE(got.y.empty());
  EXPECT_EQ(got.running, joined(uniform(3, 5), uniform(3, 6, 0.5, 2)));
}

RINGGRAD_ON_ALL_BACKENDS(BatchNormTest);

}  // namespace
}  // namespace ringgrad::test
