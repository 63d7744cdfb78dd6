#include <limits>

#include "tests/support/backend_test.h"

namespace ringgrad::test {
namespace {

using namespace kernels;

class Pool2dTest : public BackendTest {
 protected:
  struct Pooled {
    std::vector<float> y;
    std::vector<std::uint8_t> tap;
  };
  static Pooled forward(Context& context, const Pool2dShape& d, bool relu,
                        const std::vector<float>& x) {
    const Index n = d.n * d.p() * d.q() * d.c;
    DeviceArray<float> ax(context, x), y(context, unwritten<float>(n));
    DeviceArray<std::uint8_t> tap(context, unwritten<std::uint8_t>(n));
    run(context, MaxPool2dForward<float>{d, relu, ax.get(), y.get(), tap.get()});
    return {y.host(), tap.host()};
  }
  static std::vector<float> backward(Context& context, const Pool2dShape& d,
                                     const std::vector<float>& dy,
                                     const std::vector<std::uint8_t>& tap) {
    DeviceArray<float> ady(context, dy), dx(context, unwritten<float>(d.n * d.h * d.w * d.c));
    DeviceArray<std::uint8_t> atap(context, tap);
    run(context, MaxPool2dBackward<float>{d, ady.get(), atap.get(), dx.get()});
    return dx.host();
  }
};

TEST_P(Pool2dTest, MatchesReferenceOnHardShapes) {
  RINGGRAD_NEEDS(MaxPool2dForward<float>);
  const Pool2dShape shapes[] = {
      {1, 1, 1, 1, 1, 1, 0},  {2, 4, 6, 3, 2, 2, 0},   {1, 8, 8, 5, 3, 2, 1},
      {1, 7, 7, 5, 3, 2, 1},  {3, 5, 9, 17, 2, 2, 0},  {1, 9, 6, 33, 3, 1, 1},
      {2, 6, 6, 64, 2, 3, 0}, {1, 13, 11, 2, 5, 3, 2}, {0, 4, 4, 3, 2, 2, 0}};
  for (const Pool2dShape& d : shapes) {
    SCOPED_TRACE(concat("n ", d.n, " h ", d.h, " w ", d.w, " c ", d.c, " kernel ", d.kernel,
                        " stride ", d.stride, " pad ", d.pad));
    for (const bool relu : {false, true}) {
      // Few different values, so that there are ties.
      const std::vector<float> x = integers(d.n * d.h * d.w * d.c, 1, -2, 1);
      const Pooled got = forward(*context_, d, relu, x);
      const Pooled expected = forward(*reference_, d, relu, x);
      EXPECT_TRUE(close(got.y, expected.y, kExact));
      EXPECT_EQ(got.tap, expected.tap);
      const std::vector<float> dy = integers(static_cast<Index>(got.y.size()), 2);
      EXPECT_TRUE(close(backward(*context_, d, dy, expected.tap),
                        backward(*reference_, d, dy, expected.tap), kExact));
    }
  }
}

TEST_P(Pool2dTest, TiesGoToTheFirst) {
  RINGGRAD_NEEDS(MaxPool2dForward<float>);
  const Pool2dShape d{1, 4, 4, 1, 3, 2, 1};
  const Pooled pooled = forward(*context_, d, false, std::vector<float>(16));
  EXPECT_EQ(backward(*context_, d, {1, 1, 1, 1}, pooled.tap),
            (std::vector<float>{1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST_P(Pool2dTest, PaddingNeverWins) {
  RINGGRAD_NEEDS(MaxPool2dForward<float>);
  const Pool2dShape d{1, 4, 4, 1, 3, 2, 1};
  EXPECT_EQ(forward(*context_, d, false, std::vector<float>(16, -5.0F)).y,
            (std::vector<float>{-5, -5, -5, -5}));
}

TEST_P(Pool2dTest, NanWinsAndMinusInfinityHasAValidIndex) {
  RINGGRAD_NEEDS(MaxPool2dForward<float>);
  const Pool2dShape d{1, 2, 4, 1, 2, 2, 0};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float low = -std::numeric_limits<float>::infinity();
  for (const bool relu : {false, true}) {
    const Pooled pooled = forward(*context_, d, relu, {1, nan, low, low, 7, 2, low, low});
    EXPECT_TRUE(std::isnan(pooled.y[0]));
    EXPECT_EQ(pooled.tap[0], 1);
    EXPECT_EQ(pooled.y[1], relu ? 0 : low);
    EXPECT_EQ(pooled.tap[1], relu ? 255 : 0);
  }
}

TEST_P(Pool2dTest, ReluAfterPoolingEqualsReluBefore) {
  RINGGRAD_NEEDS(MaxPool2dForward<float>);
  const Pool2dShape d{2, 6, 6, 19, 2, 2, 0};
  const std::vector<float> x = uniform(d.n * d.h * d.w * d.c, 5, -1, 0.3);
  std::vector<float> relu_x = x;
  for (float& value : relu_x) {
    value = value > 0 ? value : 0;
  }
  const Pooled fused = forward(*context_, d, true, x);
  const Pooled plain = forward(*context_, d, false, relu_x);
  EXPECT_EQ(fused.y, plain.y);
  const std::vector<float> dy = integers(static_cast<Index>(fused.y.size()), 6);
  std::vector<float> dx = backward(*context_, d, dy, plain.tap);
  for (std::size_t i = 0; i < dx.size(); ++i) {
    dx[i] = relu_x[i] > 0 ? dx[i] : 0;
  }
  EXPECT_EQ(backward(*context_, d, dy, fused.tap), dx);
}

TEST_P(Pool2dTest, GlobalAverage) {
  RINGGRAD_NEEDS(GlobalAvgPoolForward<float>);
  const auto forward_of = [](Context& context, Index n, Index hw, Index c) {
    DeviceArray<float> x(context, uniform(n * hw * c, 7)), y(context, unwritten<float>(n * c));
    run(context, GlobalAvgPoolForward<float>{n, hw, c, x.get(), y.get()});
    return y.host();
  };
  const auto backward_of = [](Context& context, Index n, Index hw, Index c) {
    DeviceArray<float> dy(context, uniform(n * c, 8)), dx(context, unwritten<float>(n * hw * c));
    run(context, GlobalAvgPoolBackward<float>{n, hw, c, dy.get(), dx.get()});
    return dx.host();
  };
  for (const auto& [n, hw, c] : {std::tuple{1, 1, 1}, {3, 49, 512}, {2, 7, 33}, {0, 4, 5}}) {
    EXPECT_TRUE(close(forward_of(*context_, n, hw, c), forward_of(*reference_, n, hw, c)));
    EXPECT_TRUE(close(backward_of(*context_, n, hw, c), backward_of(*reference_, n, hw, c)));
  }
}

RINGGRAD_ON_ALL_BACKENDS(Pool2dTest);

}  // namespace
}  // namespace ringgrad::test
