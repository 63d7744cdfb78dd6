// The command as a user meets it: exit codes, messages, files.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "data/image.h"
#include "runtime/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace ringgrad::test {
namespace {

class CommandTest : public testing::Test {
 protected:
  std::vector<std::string> train_args(std::vector<std::string> more = {}) {
    std::vector<std::string> args = {
        "train",    "--data", "synthetic:32x32", "--samples", "400",   "--batch_size", "2",
        "--epochs", "1",      "--threads",       "1",         "--out", run()};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  std::string run() const { return (folder_ / "run").string(); }
  TemporaryFolder folder_;
};

// A mistake is one line on standard error and exit code 2.
TEST_F(CommandTest, MistakesAreNamedInOneLine) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"train"},
       "ringgrad: --data is missing: idx:DIR, cifar10:DIR, cifar100:DIR, folder:DIR or "
       "synthetic:HxW\n"},
      {{"train", "--data", "nothing"},
       "ringgrad: data 'nothing': expected idx:DIR, cifar10:DIR, cifar100:DIR, folder:DIR or "
       "synthetic:HxW\n"},
      {{"train", "--data", "idx:/nonexistent"},
       "ringgrad: data idx: /nonexistent has neither train-labels-idx1-ubyte nor "
       "train-labels-idx1-ubyte.gz\n"},
      {{"train", "--data", "synthetic:32x32", "--epochs", "0"},
       "ringgrad: --epochs 0: expected 1 or more\n"},
      {{"train", "--data", "synthetic:32x32", "--schedule", "step"},
       "ringgrad: schedule 'step': expected constant, cosine, or step:SIZE:GAMMA such as "
       "step:7:0.1\n"},
      {{"train", "--resume"}, "ringgrad: --resume needs --out, the run's folder\n"},
      {{"train", "--resume", "--out", "/nonexistent"},
       "ringgrad: --resume: /nonexistent holds no checkpoint\n"},
      {{"eval", "/nonexistent"}, "ringgrad: /nonexistent does not exist\n"},
      {{"watch", "/nonexistent"},
       "ringgrad: /nonexistent is not the folder of a run: it has no run.log\n"},
      {{"train", "--data", "synthetic:32x32", "--init", "/", "--out", run()},
       "ringgrad: /: is a folder; expected a .safetensors file\n"},
      {{"train", "--data", "synthetic:32x32", "--threads", "100000"},
       "ringgrad: --threads 100000: expected 0 (all cores) to 1024\n"},
      {{"fetch", "mnist"},
       "ringgrad: nothing to fetch is called 'mnist'; expected cifar10 or cifar100\n"},
      {{"inspect", "nothing"},
       "ringgrad: data 'nothing': expected idx:DIR, cifar10:DIR, cifar100:DIR, folder:DIR or "
       "synthetic:HxW\n"}};
  for (const auto& [args, message] : cases) {
    const Outcome outcome = ringgrad_command(args);
    EXPECT_EQ(outcome.code, 2) << message;
    EXPECT_EQ(outcome.err, message);
  }
}

TEST_F(CommandTest, UnknownFlagsAndWordsExitTwo) {
  const Outcome flag = ringgrad_command({"train", "--nonsense", "1"});
  EXPECT_EQ(flag.code, 2);
  EXPECT_TRUE(contains(flag.err, "--nonsense"));
  EXPECT_EQ(ringgrad_command({"fly"}).code, 2);
  EXPECT_EQ(ringgrad_command({}).code, 2);
  EXPECT_EQ(ringgrad_command({"train", "--epochs", "many"}).code, 2);
}

TEST_F(CommandTest, DevicesThatAreNotThereAreNamed) {
  const Outcome unknown = ringgrad_command(train_args({"--device", "tpu"}));
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(
      contains(unknown.err, "device tpu is unknown; expected one of: cpu, reference, emulated"));
  const Outcome profile = ringgrad_command(train_args({"--device", "emulated:k81"}));
  EXPECT_EQ(profile.code, 2);
  EXPECT_TRUE(contains(profile.err, "expected k80, v100 or h200"));
}

TEST_F(CommandTest, ReplicasOnAllDevices) {
  const Outcome all = ringgrad_command({"train", "--data", "synthetic:32x32", "--samples", "6",
                                        "--batch-size", "2", "--epochs", "1", "--device",
                                        "emulated:k80x3", "--replicas", "all", "--out", run()});
  EXPECT_EQ(all.code, 0) << all.err;
  EXPECT_TRUE(contains(all.out, "Tesla K80 (emulated)")) << all.out;
  EXPECT_TRUE(contains(all.out, "3 replicas")) << all.out;
  const Outcome none = ringgrad_command(train_args({"--replicas", "0"}));
  EXPECT_EQ(none.code, 2);
  EXPECT_TRUE(contains(none.err, "expected 1 to 64, or all")) << none.err;
}

TEST_F(CommandTest, HelpHasExamplesAndInfoNamesTheDevices) {
  const Outcome help = ringgrad_command({"train", "--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_TRUE(contains(help.out, "Examples:"));
  EXPECT_TRUE(contains(help.out, "--batch-size"));
  const Outcome info = ringgrad_command({"info"});
  EXPECT_EQ(info.code, 0);
  for (const char* part : {"ringgrad 0.", "device cpu: ", "oneDNN 2.",
                           "device reference: ", "device emulated: ", "H200 (emulated)"}) {
    EXPECT_TRUE(contains(info.out, part));
  }
  EXPECT_EQ(ringgrad_command({"--version"}).code, 0);
}

TEST_F(CommandTest, TrainingPrintsTheTutorialsLinesAndWritesMetrics) {
  const Outcome outcome = ringgrad_command(train_args());
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(std::regex_search(
      outcome.out, std::regex(R"(\nTrain Epoch: 0 \[0/400 \(0%\)\]	Loss: \d+\.\d{6}\n)")));
  EXPECT_TRUE(std::regex_search(
      outcome.out, std::regex(R"(\nTrain Epoch: 0 \[200/400 \(50%\)\]	Loss: \d+\.\d{6}\n)")));
  EXPECT_TRUE(std::regex_search(
      outcome.out,
      std::regex(R"(\nepoch 1/1: train loss \d\.\d{4} accuracy 0\.\d{4}, test loss \d\.\d{4} )"
                 R"(accuracy [01]\.\d{4}, \d+ images/s, \d+\.\d s\n)")));
  EXPECT_EQ(outcome.out.find('\033'), std::string::npos) << "no control characters in a pipe";
  EXPECT_EQ(read_file(folder_ / "run/run.log"), outcome.out);

  std::vector<nlohmann::json> metrics;
  std::istringstream lines(read_file(folder_ / "run/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    metrics.push_back(nlohmann::json::parse(line));
  }
  ASSERT_EQ(metrics.size(), 3U);
  EXPECT_EQ(metrics[0]["event"], "step");
  EXPECT_EQ(metrics[1]["step"], 100);
  EXPECT_EQ(metrics[2]["event"], "epoch");
  EXPECT_GE(metrics[2]["test_accuracy"].get<double>(), 0.1);

  // What was learned can be used from its file alone.
  const Outcome eval = ringgrad_command({"eval", run()});
  EXPECT_EQ(eval.code, 0) << eval.err;
  char accuracy[32];
  std::snprintf(accuracy, sizeof accuracy, "accuracy %.4f (",
                metrics[2]["test_accuracy"].get<double>());
  EXPECT_TRUE(contains(eval.out, accuracy));
  EXPECT_EQ(ringgrad_command({"eval", run() + "/best.safetensors"}).code, 0);
  const Outcome inspect = ringgrad_command({"inspect", run()});
  EXPECT_TRUE(contains(inspect.out, "conv2.weight"));
  EXPECT_TRUE(contains(inspect.out, "8 tensors, 2122186 elements"));
  const Outcome watch = ringgrad_command({"watch", run()});
  EXPECT_EQ(watch.code, 0);
  EXPECT_TRUE(contains(watch.out, "done: best test accuracy"));
}

// script(1) gives the command a terminal.
TEST_F(CommandTest, ATerminalShowsOneBarThatLinesReplace) {
  const std::string command = concat(
      command_path(), " train --data synthetic:32x32 --samples 200 --batch-size 8 --epochs 1",
      " --out ", run());
  const Outcome outcome = run_process({"script", "-qec", command, "/dev/null"});
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_TRUE(std::regex_search(
      outcome.out, std::regex("\r\033\\[Ktrain 1/1 \\[[#.]{24}\\] [ \\d]{2}\\d%  \\d+ images/s  "
                              "\\d\\d:\\d\\d left  loss \\d\\.\\d{4}  accuracy [01]\\.\\d{4}\r")))
      << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "\r\033[Kepoch 1/1: train loss "));
  EXPECT_FALSE(contains(outcome.out, "Train Epoch: ")) << "the bar stands for these lines";
  EXPECT_TRUE(contains(read_file(folder_ / "run/run.log"), "Train Epoch: 0 [0/200 (0%)]"));
  EXPECT_FALSE(contains(read_file(folder_ / "run/run.log"), "\033"));
}

TEST_F(CommandTest, AConfigFileSetsWhatFlagsDoNot) {
  write_file(folder_ / "config.json", R"({"lr": 0.5, "momentum": 0.25, "num-classes": 3})");
  const std::string config = (folder_ / "config.json").string();
  const Outcome outcome =
      ringgrad_command(train_args({"--config", config, "--momentum", "0.125", "--lr", "0.01"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Outcome inspect = ringgrad_command({"inspect", run()});
  EXPECT_TRUE(contains(inspect.out, "\"momentum\":0.125"));
  EXPECT_TRUE(contains(inspect.out, "\"num-classes\":3"));
  write_file(folder_ / "config.json", R"({"learning-rate": 0.5})");
  Outcome wrong = ringgrad_command(train_args({"--config", config}));
  EXPECT_EQ(wrong.code, 2);
  EXPECT_EQ(wrong.err,
            "ringgrad: " + config + ": 'learning-rate' is not a setting of a training run\n");
  write_file(folder_ / "config.json", R"({"epochs": 2.5})");
  wrong = ringgrad_command(train_args({"--config", config}));
  EXPECT_EQ(wrong.err,
            "ringgrad: " + config + ": setting epochs is 2.5; expected a whole number\n");
}

TEST_F(CommandTest, InspectShowsDataAndDrawsAContactSheet) {
  const std::string sheet = (folder_ / "sheet.png").string();
  const Outcome outcome = ringgrad_command(
      {"inspect", "synthetic:20x30", "--contact-sheet", sheet, "--batch-size", "10"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(
      contains(outcome.out, "2048 training and 512 test images; the first is 30x20 pixels"));
  const data::Image image = data::decode_image(sheet);
  EXPECT_EQ(image.width, 8 * 32);
  EXPECT_EQ(image.height, 2 * 22);
}

// A disk without room is found before training starts.
TEST_F(CommandTest, AFullDiskIsFoundBeforeTraining) {
  std::string line = "ulimit -f 1000; exec " + command_path();
  for (const std::string& arg : train_args()) {
    line += " " + arg;
  }
  const Outcome outcome = run_process({"bash", "-c", line});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(contains(outcome.err, "MiB for checkpoints: "));
  EXPECT_EQ(outcome.out.find("Train Epoch"), std::string::npos);
}

}  // namespace
}  // namespace ringgrad::test
