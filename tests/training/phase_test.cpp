#include "training/phase.h"

#include <gtest/gtest.h>

namespace ringgrad::test {
namespace {

TEST(Totals, LossIsTheMeanOverSamplesNotBatches) {
  training::Totals totals;
  totals.add(1.0, 3, 4);
  totals.add(6.0, 0, 1);
  EXPECT_DOUBLE_EQ(totals.loss(), 2.0);
  EXPECT_DOUBLE_EQ(totals.accuracy(), 0.6);
  EXPECT_DOUBLE_EQ(training::Totals().loss(), 0.0);
}

}  // namespace
}  // namespace ringgrad::test
