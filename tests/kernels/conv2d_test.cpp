#include "tests/support/backend_test.h"

namespace ringgrad::test {
namespace {

using namespace kernels;

class Conv2dTest : public BackendTest {
 protected:
  struct Sizes {
    explicit Sizes(const Conv2dShape& d)
        : x(d.n * d.h * d.w * d.c), w(d.k * d.r * d.s * d.c), y(d.n * d.p() * d.q() * d.k) {}
    Index x, w, y;
  };

  std::vector<float> forward(Context& context, const Conv2dShape& d, const std::vector<float>& x,
                             const std::vector<float>& w, const std::vector<float>& bias) {
    DeviceArray<float> dx(context, x), dw(context, w), db(context, bias);
    DeviceArray<float> y(context, unwritten<float>(Sizes(d).y));
    run_variant(context, Conv2dForward<float>{d, dx.get(), dw.get(),
                                              bias.empty() ? nullptr : db.get(), y.get()});
    return y.host();
  }
  std::vector<float> backward_data(Context& context, const Conv2dShape& d,
                                   const std::vector<float>& dy, const std::vector<float>& w) {
    DeviceArray<float> ddy(context, dy), dw(context, w);
    DeviceArray<float> dx(context, unwritten<float>(Sizes(d).x));
    run_variant(context, Conv2dBackwardData<float>{d, ddy.get(), dw.get(), dx.get()});
    return dx.host();
  }
  // dw and dbias behind one another; with accumulation on top of what `before` holds.
  std::vector<float> backward_weights(Context& context, const Conv2dShape& d,
                                      const std::vector<float>& x, const std::vector<float>& dy,
                                      bool bias, GradMode mode) {
    const Sizes n(d);
    DeviceArray<float> ax(context, x), ady(context, dy);
    const bool add = mode == GradMode::accumulate;
    DeviceArray<float> dw(context, add ? integers(n.w, 31) : unwritten<float>(n.w));
    DeviceArray<float> db(context, add ? integers(d.k, 32) : unwritten<float>(d.k));
    run_variant(context, Conv2dBackwardWeights<float>{d, ax.get(), ady.get(), dw.get(),
                                                      bias ? db.get() : nullptr, mode});
    std::vector<float> all = dw.host();
    const std::vector<float> tail = bias ? db.host() : std::vector<float>();
    all.insert(all.end(), tail.begin(), tail.end());
    return all;
  }

  void check(const Conv2dShape& d, bool exact) {
    SCOPED_TRACE(concat("n ", d.n, " h ", d.h, " w ", d.w, " c ", d.c, " k ", d.k, " r ", d.r,
                        " s ", d.s, " stride ", d.stride, " pad ", d.pad));
    const Sizes n(d);
    const auto data = [&](Index count, std::uint64_t seed) {
      return exact ? integers(count, seed) : uniform(count, seed);
    };
    const Tolerance tolerance = exact ? kExact : kFloat;
    const std::vector<float> x = data(n.x, 1);
    const std::vector<float> w = data(n.w, 2);
    const std::vector<float> dy = data(n.y, 3);
    for (const bool bias : {false, true}) {
      if (kRaceChecked && !bias) {
        continue;
      }
      const std::vector<float> b = bias ? data(d.k, 4) : std::vector<float>();
      EXPECT_TRUE(
          close(forward(*context_, d, x, w, b), forward(*reference_, d, x, w, b), tolerance));
      for (const GradMode mode : {GradMode::overwrite, GradMode::accumulate}) {
        EXPECT_TRUE(close(backward_weights(*context_, d, x, dy, bias, mode),
                          backward_weights(*reference_, d, x, dy, bias, mode), tolerance));
      }
    }
    EXPECT_TRUE(
        close(backward_data(*context_, d, dy, w), backward_data(*reference_, d, dy, w), tolerance));
  }
};

TEST_P(Conv2dTest, MatchesReferenceOnHardShapes) {
  RINGGRAD_NEEDS(Conv2dForward<float>);
  const Conv2dShape shapes[] = {
      // n  h   w   c  k  r  s  stride pad
      {1, 1, 1, 1, 1, 1, 1, 1, 0},   {2, 1, 1, 16, 16, 3, 3, 1, 1},  {2, 5, 7, 3, 5, 3, 3, 1, 1},
      {1, 16, 16, 3, 4, 7, 7, 2, 3}, {1, 8, 8, 2, 3, 3, 3, 2, 1},    {1, 7, 7, 2, 3, 3, 3, 2, 1},
      {1, 9, 6, 3, 4, 3, 3, 2, 1},   {2, 4, 4, 17, 15, 1, 1, 2, 0},  {3, 6, 5, 16, 32, 1, 1, 1, 0},
      {1, 16, 16, 2, 3, 7, 7, 3, 2}, {2, 11, 13, 7, 31, 5, 3, 3, 2}, {5, 4, 4, 33, 65, 3, 3, 1, 1},
      {2, 2, 2, 32, 64, 3, 3, 2, 1}, {2, 8, 8, 64, 64, 3, 3, 1, 1},  {1, 10, 10, 1, 1, 4, 4, 3, 0},
      {0, 4, 4, 2, 3, 3, 3, 1, 1},   {2, 1, 3, 5, 7, 5, 3, 1, 2},    {3, 2, 1, 4, 18, 3, 5, 2, 2},
      {2, 1, 1, 3, 4, 2, 2, 3, 4}};
  for_each_variant<Conv2dForward<float>>([&] {
    for (const Conv2dShape& shape : shapes) {
      if (!kRaceChecked) {
        check(shape, true);
      }
      check(shape, false);
    }
  });
}

// Several tiles in every direction, the last of them ragged, by every variant, and by what the
// backend takes of its own accord.
TEST_P(Conv2dTest, MatchesReferenceOverSeveralTiles) {
  RINGGRAD_NEEDS(Conv2dForward<float>);
  const auto check_all = [&] {
    check({3, 9, 11, 20, 137, 3, 3, 1, 1}, false);
    check({2, 17, 12, 132, 72, 3, 3, 2, 1}, false);
    if (!kRaceChecked) {
      check({3, 9, 11, 20, 137, 3, 3, 1, 1}, true);
      check({2, 13, 13, 3, 68, 7, 7, 2, 3}, false);
    }
  };
  if (!kRaceChecked) {
    check_all();
  }
  for_each_variant<Conv2dForward<float>>(check_all);
}

TEST_P(Conv2dTest, OneByOneWithStrideTwo) {
  RINGGRAD_NEEDS(Conv2dForward<float>);
  std::vector<float> x(16);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i);
  }
  EXPECT_EQ(forward(*context_, {1, 4, 4, 1, 1, 1, 1, 2, 0}, x, {1}, {}),
            (std::vector<float>{0, 2, 8, 10}));
}

class FullConv2dTest : public Conv2dTest {};

TEST_P(FullConv2dTest, MatchesReferenceOnTheNetworks) {
  RINGGRAD_NEEDS(Conv2dForward<float>);
  check({2, 32, 32, 3, 32, 3, 3, 1, 1}, false);
  check({2, 16, 16, 32, 64, 3, 3, 1, 1}, false);
  check({1, 224, 224, 3, 16, 7, 7, 2, 3}, false);
  check({1, 28, 28, 64, 128, 3, 3, 2, 1}, false);
  check({2, 7, 7, 128, 128, 3, 3, 1, 1}, false);
  check({4, 1, 1, 512, 256, 3, 3, 1, 1}, false);
}

RINGGRAD_ON_ALL_BACKENDS(Conv2dTest);
RINGGRAD_ON_ALL_BACKENDS(FullConv2dTest);

}  // namespace
}  // namespace ringgrad::test
