#include "training/signals.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "comm/launcher.h"

namespace ringgrad::test {
namespace {

void wait_longer_than_the_same_signal() {
  std::this_thread::sleep_for(comm::kSameSignal + std::chrono::milliseconds(50));
}

TEST(Signals, TheFirstAsksAndTheSameOnceMoreIsNotASecond) {
  const training::SignalGuard guard;
  EXPECT_EQ(training::stop_signal(), 0);
  std::raise(SIGTERM);
  std::raise(SIGINT);
  EXPECT_EQ(training::stop_signal(), SIGTERM);
}

TEST(Signals, ASecondOneKills) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        const training::SignalGuard guard;
        std::raise(SIGINT);
        wait_longer_than_the_same_signal();
        std::raise(SIGINT);
      },
      testing::KilledBySignal(SIGINT), "");
}

// A launcher that hears of the stop from one rank tells all others, who may be saving by then.
TEST(Signals, OnceRanksHaveAgreedTheNextOneIsTheFirstAgain) {
  const training::SignalGuard guard;
  std::raise(SIGTERM);
  training::stop_is_agreed();
  wait_longer_than_the_same_signal();
  std::raise(SIGTERM);
  EXPECT_EQ(training::stop_signal(), SIGTERM);
}

}  // namespace
}  // namespace ringgrad::test
