#include "engine/schedule.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace ringgrad::test {
namespace {

TEST(Schedule, StepCutsEverySizeEpochs) {
  const Schedule s = parse_schedule("step:7:0.1", 25);
  EXPECT_DOUBLE_EQ(s.rate(0.001, 0, 0, 10), 0.001);
  EXPECT_DOUBLE_EQ(s.rate(0.001, 6, 9, 10), 0.001);
  EXPECT_DOUBLE_EQ(s.rate(0.001, 7, 0, 10), 0.0001);
  EXPECT_DOUBLE_EQ(s.rate(0.001, 14, 0, 10), 0.001 * 0.1 * 0.1);
}

TEST(Schedule, CosineFallsFromBaseToZero) {
  const Schedule s = parse_schedule("cosine", 10);
  EXPECT_DOUBLE_EQ(s.rate(2, 0, 0, 10), 2);
  EXPECT_DOUBLE_EQ(s.rate(2, 5, 0, 10), 1);
  EXPECT_NEAR(s.rate(2, 10, 0, 10), 0, 1e-15);
}

TEST(Schedule, WarmUpGrowsStepByStep) {
  Schedule s = parse_schedule("constant", 10);
  s.warmup_epochs = 2;
  EXPECT_DOUBLE_EQ(s.rate(1, 0, 0, 10), 0.05);
  EXPECT_DOUBLE_EQ(s.rate(1, 1, 9, 10), 1);
  EXPECT_DOUBLE_EQ(s.rate(1, 5, 0, 10), 1);
}

TEST(Schedule, RefusesWhatItDoesNotKnow) {
  for (const char* text :
       {"", "linear", "step", "step:7", "step:0:0.1", "step:7:0.1x", "step:a:b"}) {
    EXPECT_TRUE(contains(error_of([&] { parse_schedule(text, 1); }), "expected constant"));
  }
}

}  // namespace
}  // namespace ringgrad::test
