#include "tests/support/compare.h"

#include <limits>

namespace ringgrad::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
using V = std::vector<float>;

TEST(Compare, AcceptsEqualAndClose) {
  EXPECT_TRUE(close(V{1, 2, 3}, V{1, 2, 3}, kExact));
  EXPECT_TRUE(close(V{1, 2, 3.0001F}, V{1, 2, 3}));
  EXPECT_TRUE(close(V{kNan, kInf, -kInf}, V{kNan, kInf, -kInf}, kExact));
  EXPECT_TRUE(close(V{}, V{}));
}

TEST(Compare, FailsOnSizeNanInfinityAndOneWrongElement) {
  EXPECT_FALSE(close(V{1, 2}, V{1, 2, 3}));
  EXPECT_FALSE(close(V{1, kNan, 3}, V{1, 2, 3}));
  EXPECT_FALSE(close(V{1, kInf, 3}, V{1, 2, 3}));
  EXPECT_FALSE(close(V{1, 2, 3}, V{1, kNan, 3}));
  EXPECT_FALSE(close(V{kInf}, V{-kInf}));
  V many(10000, 1.0F);
  V wrong = many;
  wrong[7777] = 1.001F;
  EXPECT_FALSE(close(wrong, many));
  EXPECT_FALSE(close(V{1.0000001F}, V{1}, kExact));
}

}  // namespace
}  // namespace ringgrad::test
