// `ringgrad launch -- ringgrad train`: a training as several processes.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>
#include <thread>

#include "data/image.h"
#include "runtime/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"
#include "training/run_folder.h"

namespace ringgrad::test {
namespace {

constexpr const char* kSmall = "--data synthetic:32x32 --samples 96 ";

class RanksTest : public testing::Test {
 protected:
  std::string out(const std::string& name) const { return (folder_ / name).string(); }

  // Two ranks; `flags` is shell text, in which $RANK stands for the rank.
  Outcome train(const std::string& flags, const std::vector<std::string>& launch_flags = {},
                const ProcessOptions& process = {}) {
    std::vector<std::string> args{"launch", "-np", "2"};
    args.insert(args.end(), launch_flags.begin(), launch_flags.end());
    args.insert(args.end(),
                {"--", "sh", "-c",
                 concat("echo pid $$; exec ", command_path(), " train --batch-size 4 ", flags)});
    return ringgrad_command(args, process);
  }

  // Sends a signal to rank 1 alone, after the first of its epochs.
  static ProcessOptions signalling_rank_1(int signal) {
    ProcessOptions process;
    process.while_running = [signal, sent = false](int, const std::string& text) mutable {
      const std::size_t at = text.find("[1] pid ");
      if (!sent && at != std::string::npos && contains(text, "epoch 1/2")) {
        kill(std::stoi(text.substr(at + 8)), signal);
        sent = true;
      }
    };
    return process;
  }

  void expect_same_weights(const std::string& a, const std::string& b) {
    EXPECT_EQ(read_file(folder_ / (a + "/best.safetensors")),
              read_file(folder_ / (b + "/best.safetensors")));
  }

  TemporaryFolder folder_;
};

TEST_F(RanksTest, NamesNeedNotBeUtf8) {
  const std::string latin1 = out("f\xfc");
  const Outcome missing = train("--data folder:" + latin1);
  EXPECT_EQ(missing.code, 2);
  EXPECT_TRUE(contains(missing.err, "f\xfc")) << missing.err;
  const data::Image image{32, 32, std::vector<std::uint8_t>(32 * 32 * 3, 77)};
  for (const char* part : {"train/a", "train/b", "val/a", "val/b"}) {
    std::filesystem::create_directories(std::filesystem::path(latin1) / part);
    data::write_png(std::filesystem::path(latin1) / part / "image.png", image);
  }
  const Outcome there =
      train("--transform cifar --epochs 1 --data folder:" + latin1 + " --out " + out("run\xfc"));
  EXPECT_EQ(there.code, 0) << there.err;
}

TEST_F(RanksTest, EachRankHasItsOwnThreadsAndWorkers) {
  const Outcome outcome =
      train(concat(kSmall, "--epochs 1 --threads $((RANK+1)) --workers $RANK --out ", out("run")));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const Outcome different = train(concat(kSmall, "--epochs $((RANK+1)) --out ", out("other")));
  EXPECT_EQ(different.code, 2);
  EXPECT_TRUE(contains(different.err, "settings")) << different.err;
}

TEST_F(RanksTest, ASignalToOneRankStopsAllAtTheSameStepAndTheRestHasTheSameBits) {
  const std::string flags = concat(kSmall, "--epochs 2 --out ");
  ASSERT_EQ(train(flags + out("whole")).code, 0);
  const Outcome stopped =
      train(flags + out("parts"), {"--max-restarts", "2"}, signalling_rank_1(SIGTERM));
  EXPECT_EQ(stopped.code, 143) << stopped.err;
  EXPECT_TRUE(contains(stopped.out, "[0] stopped by signal 15 in epoch ")) << stopped.out;
  EXPECT_FALSE(contains(stopped.err, "restart")) << stopped.err;
  ASSERT_EQ(train(concat("--resume ", flags, out("parts"))).code, 0);
  expect_same_weights("parts", "whole");
}

TEST_F(RanksTest, AKilledRankIsRestartedAndTheRunEndsWithTheSameBits) {
  const std::string flags = concat(kSmall, "--epochs 2 --save-every 7 --out ");
  ASSERT_EQ(train(flags + out("whole")).code, 0);
  const Outcome killed =
      train(flags + out("killed"), {"--max-restarts", "1"}, signalling_rank_1(SIGKILL));
  EXPECT_EQ(killed.code, 0) << killed.err;
  EXPECT_TRUE(contains(killed.err, "rank 1 was killed by signal 9")) << killed.err;
  EXPECT_TRUE(contains(killed.out, "resumed from")) << killed.out;
  expect_same_weights("killed", "whole");
}

TEST_F(RanksTest, GradientsMayTravelAsHalves) {
  const auto loss = [&](const std::string& flags) {
    const Outcome outcome = train(concat(kSmall, "--epochs 1 ", flags));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const char* words = "train loss ";
    const std::size_t at = outcome.out.find(words);
    return at == std::string::npos ? 0.0 : std::stod(outcome.out.substr(at + strlen(words)));
  };
  EXPECT_NEAR(loss(concat("--compression fp16 --out ", out("halves"))),
              loss(concat("--out ", out("floats"))), 2e-3);
  EXPECT_NE(read_file(folder_ / "halves/best.safetensors"),
            read_file(folder_ / "floats/best.safetensors"));
}

// The store is on this host, whatever its address is called.
TEST_F(RanksTest, OneHostMayCallItselfAnything) {
  const Outcome outcome =
      train(concat(kSmall, "--epochs 1 --out ", out("run")), {"--master-addr", "no.such.host"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

}  // namespace
}  // namespace ringgrad::test
