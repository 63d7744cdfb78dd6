#include "training/reporter.h"

#include <gtest/gtest.h>

namespace ringgrad::test {
namespace {

std::string text(std::int64_t samples, double rate) {
  training::Progress progress;
  progress.epochs = 10;
  progress.epoch = 2;
  progress.samples = samples;
  progress.of_samples = 50000;
  progress.loss = 0.51234567;
  progress.accuracy = 0.8125;
  progress.images_per_second = rate;
  return training::progress_text(progress);
}

TEST(Progress, SaysWhereItStandsAndHowLongItTakes) {
  EXPECT_EQ(text(12500, 500),
            "train 3/10 [######..................]  25%  500 images/s  01:15 left  "
            "loss 0.5123  accuracy 0.8125");
  EXPECT_EQ(text(50000, 1234.6),
            "train 3/10 [########################] 100%  1235 images/s  00:00 left  "
            "loss 0.5123  accuracy 0.8125");
  EXPECT_EQ(text(0, 10),
            "train 3/10 [........................]   0%  10 images/s  1:23:20 left  "
            "loss 0.5123  accuracy 0.8125");
  EXPECT_EQ(text(0, 0),
            "train 3/10 [........................]   0%  0 images/s  --:-- left  "
            "loss 0.5123  accuracy 0.8125");
}

}  // namespace
}  // namespace ringgrad::test
