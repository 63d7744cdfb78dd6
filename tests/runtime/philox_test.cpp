#include "runtime/philox.h"

#include <gtest/gtest.h>

#include <vector>

namespace ringgrad::test {
namespace {

// Known answers of the reference implementation, Random123 (kat_vectors, philox4x32 10).
TEST(Philox, KnownAnswers) {
  const PhiloxBlock zeros = philox(0, 0, 0);
  EXPECT_EQ(zeros.word[0], 0x6627e8d5U);
  EXPECT_EQ(zeros.word[1], 0xe169c58dU);
  EXPECT_EQ(zeros.word[2], 0xbc57ac4cU);
  EXPECT_EQ(zeros.word[3], 0x9b00dbd8U);
  const std::uint64_t ones = ~std::uint64_t{0};
  const PhiloxBlock full = philox(ones, ones, ones);
  EXPECT_EQ(full.word[0], 0x408f276dU);
  EXPECT_EQ(full.word[1], 0x41c83b0eU);
  EXPECT_EQ(full.word[2], 0xa20bc7c6U);
  EXPECT_EQ(full.word[3], 0x6d5451fdU);
}

TEST(RandomStream, BelowIsInRangeAndReachesAll) {
  RandomStream random(1, 2);
  std::vector<int> counts(7);
  for (int i = 0; i < 7000; ++i) {
    ++counts.at(random.next_below(7));
  }
  for (const int count : counts) {
    EXPECT_NEAR(count, 1000, 150);  // 5 standard deviations
  }
}

}  // namespace
}  // namespace ringgrad::test
