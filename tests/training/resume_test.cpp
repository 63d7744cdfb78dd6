// Runs that end early and go on, against runs that do not.
#include <gtest/gtest.h>
#include <signal.h>

#include "engine/checkpoint.h"
#include "runtime/file.h"
#include "tests/support/compare.h"
#include "tests/support/expect_error.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"
#include "training/run_folder.h"
#include "training/trainer.h"

namespace ringgrad::test {
namespace {

training::TrainOptions small(const std::filesystem::path& out) {
  training::TrainOptions options;
  options.data = "synthetic:32x32";
  options.transform = "cifar";
  options.samples = 70;
  options.batch_size = 16;
  options.epochs = 3;
  options.lr = 0.02;
  options.num_classes = 4;
  options.workers = 0;
  options.threads = 1;
  options.out = out.string();
  return options;
}

// Weights, buffers, momentum of the newest checkpoint.
std::string state_of(const std::filesystem::path& out) {
  const auto newest = training::RunFolder(out).newest_checkpoint();
  if (!newest) {
    return "no checkpoint";
  }
  std::string all;
  for (const char* file : {"model.safetensors", "state.safetensors"}) {
    for (const auto& [name, tensor] : read_safetensors(*newest / file).tensors) {
      all += name + tensor.bytes;
    }
  }
  return all;
}

class ResumeTest : public testing::Test {
 protected:
  // The tests' output is not the run's.
  int run(const training::TrainOptions& options) {
    testing::internal::CaptureStdout();
    const int code = training::train(options);
    testing::internal::GetCapturedStdout();
    return code;
  }
  TemporaryFolder folder_;
};

TEST_F(ResumeTest, AResumedRunEqualsAnUninterruptedOneToTheBit) {
  ASSERT_EQ(run(small(folder_ / "whole")), 0);
  training::TrainOptions options = small(folder_ / "parts");
  options.epochs = 1;
  ASSERT_EQ(run(options), 0);
  options.epochs = 3;
  options.resume = true;
  ASSERT_EQ(run(options), 0);
  EXPECT_EQ(state_of(folder_ / "parts"), state_of(folder_ / "whole"));
}

TEST_F(ResumeTest, WorkersDoNotMatter) {
  ASSERT_EQ(run(small(folder_ / "none")), 0);
  training::TrainOptions options = small(folder_ / "four");
  options.workers = 4;
  ASSERT_EQ(run(options), 0);
  EXPECT_EQ(state_of(folder_ / "four"), state_of(folder_ / "none"));
}

TEST_F(ResumeTest, TwoReplicasTrain) {
  training::TrainOptions options = small(folder_ / "two");
  options.replicas = 2;
  ASSERT_EQ(run(options), 0);
  const std::string log = read_file(folder_ / "two/run.log");
  EXPECT_TRUE(contains(log, "2 replicas"));
  EXPECT_TRUE(contains(log, "Train Epoch: 0 [0/35 (0%)]\tLoss: "));
}

std::vector<float> best_weights(const std::filesystem::path& out) {
  std::vector<float> all;
  for (const auto& [name, tensor] : read_safetensors(out / "best.safetensors").tensors) {
    const auto* values = reinterpret_cast<const float*>(tensor.bytes.data());
    all.insert(all.end(), values, values + tensor.count());
  }
  return all;
}

// Without batch norm, and with a shard for each that is whole batches.
TEST_F(ResumeTest, SeveralReplicasEqualOneWithTheirBatchesTogether) {
  training::TrainOptions options = small(folder_ / "one");
  options.samples = 64;
  options.epochs = 1;
  options.batch_size = 16;
  ASSERT_EQ(run(options), 0);
  const std::vector<float> expected = best_weights(folder_ / "one");
  options.out = (folder_ / "two").string();
  options.replicas = 2;
  options.global_batch_size = 16;
  ASSERT_EQ(run(options), 0);
  EXPECT_TRUE(close(best_weights(folder_ / "two"), expected));
  options.out = (folder_ / "accumulated").string();
  options.replicas = 1;
  options.global_batch_size = 0;
  options.batch_size = 5;
  options.accumulate = 4;
  options.samples = 60;
  ASSERT_EQ(run(options), 0);
  options.out = (folder_ / "at_once").string();
  options.accumulate = 1;
  options.batch_size = 20;
  ASSERT_EQ(run(options), 0);
  EXPECT_TRUE(close(best_weights(folder_ / "accumulated"), best_weights(folder_ / "at_once")));
}

TEST_F(ResumeTest, AnotherNumberOfReplicasIsRefusedUnlessAllowed) {
  training::TrainOptions options = small(folder_ / "run");
  options.epochs = 1;
  ASSERT_EQ(run(options), 0);
  options.resume = true;
  options.epochs = 2;
  options.replicas = 2;
  EXPECT_TRUE(contains(error_of([&] { run(options); }),
                       "the run had 1 replica in all, and now there are 2; --allow-resize"));
  testing::internal::GetCapturedStdout();
  options.allow_resize = true;
  EXPECT_EQ(run(options), 0);
}

TEST_F(ResumeTest, WhatDecidesAnEpochsImagesCannotChangeWithinIt) {
  training::TrainOptions options = small(folder_ / "run");
  options.epochs = 1;
  options.save_every = 2;
  ASSERT_EQ(run(options), 0);
  const training::RunFolder folder(options.out);
  std::filesystem::remove_all(*folder.newest_checkpoint());  // the end of the epoch
  options.resume = true;
  const auto refused = [&](const char* message, const auto& change) {
    training::TrainOptions changed = options;
    change(changed);
    const std::string error = error_of([&] { run(changed); });
    testing::internal::GetCapturedStdout();
    EXPECT_TRUE(contains(error, message)) << error;
  };
  using Options = training::TrainOptions;
  refused("--seed was 0 and is 1", [](Options& o) { o.seed = 1; });
  refused("--accumulate was 1 and is 2", [](Options& o) { o.accumulate = 2; });
  refused("--batch-size was 16 and is 8", [](Options& o) { o.batch_size = 8; });
  refused("--global-batch-size was 0 and is 32", [](Options& o) { o.global_batch_size = 32; });
  refused("--drop-last was false and is true", [](Options& o) { o.drop_last = true; });
  refused("--samples was 70 and is 71", [](Options& o) { o.samples = 71; });
  refused("--data was", [](Options& o) { o.data = "synthetic:32x33"; });
  refused("the number of replicas can change between epochs only", [](Options& o) {
    o.replicas = 2;
    o.allow_resize = true;
  });
  EXPECT_EQ(run(options), 0);
}

// 5 batches in windows of 2 are 3 steps of the optimizer in each epoch.
TEST_F(ResumeTest, SaveEveryCountsStepsOfTheOptimizer) {
  training::TrainOptions options = small(folder_ / "run");
  options.epochs = 2;
  options.accumulate = 2;
  options.save_every = 4;
  ASSERT_EQ(run(options), 0);
  const training::RunFolder folder(options.out);
  EXPECT_TRUE(std::filesystem::exists(folder.checkpoint(1, 7)));
}

// Both replicas diverge or one does: nobody waits for the other.
TEST_F(ResumeTest, AReplicaThatFailsEndsTheRunAndTheLogSaysWhy) {
  training::TrainOptions options = small(folder_ / "two");
  options.replicas = 2;
  options.lr = 1e5;
  EXPECT_TRUE(contains(error_of([&] { run(options); }), "the training diverged"));
  testing::internal::GetCapturedStdout();
  EXPECT_TRUE(contains(read_file(folder_ / "two/run.log"), "\nfailed: "));
}

TEST_F(ResumeTest, AFolderInUseIsRefused) {
  training::RunFolder folder(folder_ / "a");
  folder.lock();
  training::TrainOptions options = small(folder_ / "a");
  EXPECT_TRUE(contains(error_of([&] { training::train(options); }), "in use by another process"));
}

TEST_F(ResumeTest, RefusesAFolderThatHoldsARun) {
  training::TrainOptions options = small(folder_ / "a");
  options.epochs = 1;
  ASSERT_EQ(run(options), 0);
  EXPECT_TRUE(contains(error_of([&] { run(options); }), "continue it with --resume"));
  testing::internal::GetCapturedStdout();
}

TEST_F(ResumeTest, ADivergedRunStopsWithASentence) {
  training::TrainOptions options = small(folder_ / "nan");
  options.lr = 1e5;
  EXPECT_TRUE(contains(error_of([&] { run(options); }), "the training diverged"));
  testing::internal::GetCapturedStdout();
}

TEST_F(ResumeTest, AnUnwritableFolderIsFoundBeforeTraining) {
  write_file(folder_ / "file", "");
  training::TrainOptions options = small(folder_ / "file/run");
  EXPECT_TRUE(contains(error_of([&] { training::train(options); }), "cannot be made"));
}

// The newest complete checkpoint counts, whatever a killed save left beside it.
TEST_F(ResumeTest, HalfWrittenCheckpointsAreIgnoredAndRemoved) {
  training::TrainOptions options = small(folder_ / "a");
  options.epochs = 1;
  ASSERT_EQ(run(options), 0);
  const std::filesystem::path half = folder_ / "a/checkpoints/step-999999999-epoch-0009.tmp.77";
  std::filesystem::create_directories(half);
  write_file(half / "model.safetensors", "torn");
  options.epochs = 2;
  options.resume = true;
  ASSERT_EQ(run(options), 0);
  EXPECT_FALSE(std::filesystem::exists(half));
}

std::vector<std::string> command(const std::filesystem::path& out) {
  return {"train",
          "--data",
          "synthetic:32x32",
          "--transform",
          "cifar",
          "--samples",
          "640",
          "--batch-size",
          "16",
          "--epochs",
          "2",
          "--lr",
          "0.02",
          "--threads",
          "1",
          "--out",
          out.string()};
}

TEST_F(ResumeTest, SigtermSavesWithinAnEpochAndTheRestHasTheSameBits) {
  ASSERT_EQ(ringgrad_command(command(folder_ / "whole")).code, 0);
  bool sent = false;
  ProcessOptions process;
  process.while_running = [&](int pid, const std::string& out) {
    if (!sent && out.find("Train Epoch: 0") != std::string::npos) {
      kill(pid, SIGTERM);
      kill(pid, SIGTERM);  // the same once more, as timeout(1) sends it
      sent = true;
    }
  };
  const Outcome stopped = ringgrad_command(command(folder_ / "parts"), process);
  EXPECT_EQ(stopped.code, 143);
  EXPECT_TRUE(contains(stopped.out, "stopped by signal 15 in epoch 0"));
  EXPECT_TRUE(contains(stopped.out, "ringgrad train --resume --out"));
  const Outcome resumed =
      ringgrad_command({"train", "--resume", "--out", (folder_ / "parts").string()});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(state_of(folder_ / "parts"), state_of(folder_ / "whole"));
}

TEST_F(ResumeTest, AVanishedTerminalEndsNothing) {
  ProcessOptions process;
  process.while_running = [](int pid, const std::string& out) {
    if (out.find("Train Epoch: 0") != std::string::npos) {
      kill(pid, SIGHUP);
    }
  };
  process.stops_reading_after = "Train Epoch: 0";
  const Outcome outcome = ringgrad_command(command(folder_ / "run"), process);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(contains(read_file(folder_ / "run/run.log"), "done: best test accuracy"));
}

TEST_F(ResumeTest, WatchTellsAKilledRun) {
  ProcessOptions process;
  process.while_running = [](int pid, const std::string& out) {
    if (out.find("Train Epoch: 0") != std::string::npos) {
      kill(pid, SIGKILL);
    }
  };
  EXPECT_EQ(ringgrad_command(command(folder_ / "run"), process).code, 128 + SIGKILL);
  const Outcome watch = ringgrad_command({"watch", (folder_ / "run").string()});
  EXPECT_EQ(watch.code, 2);
  EXPECT_TRUE(contains(watch.err, "it was killed; continue it with: ringgrad train --resume"));
}

// Killed at any moment: the newest checkpoint loads and the run goes on from it.
TEST(FullResumeTest, KilledAtAnyMomentTheRunGoesOn) {
  const TemporaryFolder folder;
  std::vector<std::string> args = command(folder / "run");
  args.insert(args.end(), {"--samples", "64", "--epochs", "40"});
  args.erase(args.begin() + 5, args.begin() + 7);
  args.erase(args.begin() + 7, args.begin() + 9);
  for (int round = 0; round < 8; ++round) {
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(300 + 130 * round);
    ProcessOptions process;
    process.while_running = [&](int pid, const std::string&) {
      if (std::chrono::steady_clock::now() > deadline) {
        kill(pid, SIGKILL);
      }
    };
    ringgrad_command(args, process);
    if (training::RunFolder(folder / "run").newest_checkpoint()) {
      args = {"train", "--resume", "--out", (folder / "run").string()};
    } else {
      std::filesystem::remove_all(folder / "run");
    }
  }
  const Outcome last = ringgrad_command(args);
  EXPECT_EQ(last.code, 0) << last.err;
}

}  // namespace
}  // namespace ringgrad::test
