#include <limits>

#include "tests/support/backend_test.h"

namespace ringgrad::test {
namespace {

using namespace kernels;

class ElementwiseTest : public BackendTest {};

constexpr Index kCounts[] = {0, 1, 15, 16, 17, 1023, 1025, 40000};

TEST_P(ElementwiseTest, Relu) {
  RINGGRAD_NEEDS(ReluForward<float>);
  for (const Index n : kCounts) {
    const std::vector<float> values = uniform(n, 1);
    std::vector<float> expected = values;
    for (float& v : expected) {
      v = v > 0 ? v : 0;
    }
    DeviceArray<float> x(*context_, values), y(*context_, unwritten<float>(n));
    run(*context_, ReluForward<float>{n, x.get(), y.get()});
    EXPECT_EQ(y.host(), expected);
    run(*context_, ReluForward<float>{n, x.get(), x.get()});
    EXPECT_EQ(x.host(), expected) << "in place";

    const std::vector<float> gradient = uniform(n, 2);
    std::vector<float> expected_dx = gradient;
    for (std::size_t i = 0; i < expected_dx.size(); ++i) {
      expected_dx[i] = expected[i] > 0 ? expected_dx[i] : 0;
    }
    DeviceArray<float> dy(*context_, gradient);
    run(*context_, ReluBackward<float>{n, y.get(), dy.get(), dy.get()});
    EXPECT_EQ(dy.host(), expected_dx);
  }
}

TEST_P(ElementwiseTest, ReluKeepsNan) {
  RINGGRAD_NEEDS(ReluForward<float>);
  DeviceArray<float> x(*context_, {std::numeric_limits<float>::quiet_NaN(), -1.0F});
  run(*context_, ReluForward<float>{2, x.get(), x.get()});
  EXPECT_TRUE(std::isnan(x.host()[0]));
  EXPECT_EQ(x.host()[1], 0);
}

TEST_P(ElementwiseTest, Add) {
  RINGGRAD_NEEDS(Add<float>);
  for (const Index n : kCounts) {
    DeviceArray<float> a(*context_, integers(n, 1)), b(*context_, integers(n, 2));
    std::vector<float> expected = integers(n, 1);
    const std::vector<float> second = integers(n, 2);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] += second[i];
    }
    run(*context_, Add<float>{n, a.get(), b.get(), a.get()});
    EXPECT_EQ(a.host(), expected);
  }
}

RINGGRAD_ON_ALL_BACKENDS(ElementwiseTest);

}  // namespace
}  // namespace ringgrad::test
