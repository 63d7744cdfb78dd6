#include "tests/support/backend_test.h"

namespace ringgrad::test {
namespace {

using namespace kernels;

class LinearTest : public BackendTest {
 protected:
  // All results of the three operations behind one another.
  std::vector<float> all(Context& context, Index n, Index in, Index out, bool bias, GradMode mode,
                         bool exact) const {
    const auto data = [&](Index count, std::uint64_t seed) {
      return exact ? integers(count, seed) : uniform(count, seed);
    };
    DeviceArray<float> x(context, data(n * in, 1)), w(context, data(out * in, 2));
    DeviceArray<float> b(context, data(out, 3)), dy(context, data(n * out, 4));
    DeviceArray<float> y(context, unwritten<float>(n * out)), dx(context, unwritten<float>(n * in));
    const bool add = mode == GradMode::accumulate;
    DeviceArray<float> dw(context, add ? integers(out * in, 5) : unwritten<float>(out * in));
    DeviceArray<float> db(context, add ? integers(out, 6) : unwritten<float>(out));
    run_variant(context, LinearForward<float>{n, in, out, x.get(), w.get(),
                                              bias ? b.get() : nullptr, y.get()});
    run_variant(context, LinearBackwardData<float>{n, in, out, dy.get(), w.get(), dx.get()});
    run_variant(context, LinearBackwardWeights<float>{n, in, out, x.get(), dy.get(), dw.get(),
                                                      bias ? db.get() : nullptr, mode});
    std::vector<float> results = y.host();
    for (DeviceArray<float>* array : {&dx, &dw}) {
      const std::vector<float> part = array->host();
      results.insert(results.end(), part.begin(), part.end());
    }
    if (bias) {
      const std::vector<float> part = db.host();
      results.insert(results.end(), part.begin(), part.end());
    }
    return results;
  }
};

TEST_P(LinearTest, MatchesReferenceOnHardShapes) {
  RINGGRAD_NEEDS(LinearForward<float>);
  for_each_variant<LinearForward<float>>([&] {
    for (const auto& [n, in, out] : {std::tuple{1, 1, 1},
                                     {2, 3, 5},
                                     {16, 16, 16},
                                     {17, 15, 33},
                                     {7, 129, 2},
                                     {64, 100, 10},
                                     {70, 1100, 68},
                                     {0, 5, 3}}) {
      SCOPED_TRACE(concat("n ", n, " in ", in, " out ", out));
      for (const bool bias : {false, true}) {
        if (kRaceChecked && !bias) {
          continue;
        }
        for (const GradMode mode : {GradMode::overwrite, GradMode::accumulate}) {
          if (!kRaceChecked) {
            EXPECT_TRUE(close(all(*context_, n, in, out, bias, mode, true),
                              all(*reference_, n, in, out, bias, mode, true), kExact));
          }
          EXPECT_TRUE(close(all(*context_, n, in, out, bias, mode, false),
                            all(*reference_, n, in, out, bias, mode, false)));
        }
      }
    }
  });
}

RINGGRAD_ON_ALL_BACKENDS(LinearTest);

}  // namespace
}  // namespace ringgrad::test
