#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <sstream>
#include <thread>

#include "runtime/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace ringgrad::test {
namespace {

// Runs a shell script as each rank.
Outcome launch(int ranks, const std::string& script, const std::vector<std::string>& flags = {},
               const ProcessOptions& process = {}) {
  std::vector<std::string> args{"launch", "--np", std::to_string(ranks)};
  args.insert(args.end(), flags.begin(), flags.end());
  args.insert(args.end(), {"--", "sh", "-c", script});
  return ringgrad_command(args, process);
}

TEST(Launcher, RanksFindTheirPlaceInTheEnvironment) {
  const Outcome outcome =
      launch(2,
             "echo $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE at $MASTER_ADDR; "
             "test ${#RINGGRAD_SECRET} = 64");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "[0] 0 of 2, 0 of 2 at 127.0.0.1\n"));
  EXPECT_TRUE(contains(outcome.out, "[1] 1 of 2, 1 of 2 at 127.0.0.1\n"));
}

TEST(Launcher, RanksOfAnotherNodeAreNumberedOn) {
  ProcessOptions process;
  process.environment = {"RINGGRAD_SECRET=s"};
  const Outcome outcome =
      launch(2, "echo $RANK of $WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT",
             {"--nnodes", "2", "--node-rank", "1", "--master-addr", "10.0.0.1"}, process);
  EXPECT_TRUE(contains(outcome.out, "[3] 3 of 4 at 10.0.0.1:29500\n")) << outcome.out;
}

TEST(Launcher, LinesAreNeverTorn) {
  const Outcome outcome =
      launch(4,
             "i=0; while [ $i -lt 10000 ]; do echo $RANK says a line of some length; "
             "i=$((i+1)); done; printf 'no end of line'");
  EXPECT_EQ(outcome.code, 0);
  std::istringstream lines(outcome.out);
  std::map<std::string, int> count;
  for (std::string line; std::getline(lines, line);) {
    ++count[line];
  }
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(count[concat("[", rank, "] ", rank, " says a line of some length")], 10000);
    EXPECT_EQ(count[concat("[", rank, "] no end of line")], 1);
  }
  EXPECT_EQ(count.size(), 8U);
}

TEST(Launcher, EachRankHasItsLog) {
  const TemporaryFolder folder;
  launch(2, "echo out $RANK; echo err $RANK >&2", {"--log-dir", (folder / "logs").string()});
  for (const char* rank : {"0", "1"}) {
    const std::string log = read_file(folder / concat("logs/rank-", rank, ".log"));
    EXPECT_TRUE(contains(log, concat("out ", rank, "\n")));
    EXPECT_TRUE(contains(log, concat("err ", rank, "\n")));
  }
}

TEST(Launcher, TheFirstFailuresCodeEndsTheJob) {
  const Outcome code = launch(3, "test $RANK != 1 || exit 7; sleep 50");
  EXPECT_EQ(code.code, 7);
  EXPECT_TRUE(contains(code.err, "rank 1 exited with code 7; ending all ranks"));
  EXPECT_EQ(launch(2, "test $RANK != 1 || kill -SEGV $$; sleep 50").code, 128 + SIGSEGV);
  // Who only suffers from another rank's failure does not name the code.
  EXPECT_EQ(launch(2, "test $RANK = 0 && exit 75; sleep 0.3; exit 3").code, 3);
}

TEST(Launcher, ASignalGoesToEachRankOnceAndWhoStaysIsKilledAfterTheGraceTime) {
  ProcessOptions process;
  bool sent = false;
  process.while_running = [&](int pid, const std::string& out) {
    if (!sent && out.find("[0] ready") != std::string::npos &&
        out.find("[1] ready") != std::string::npos) {
      sent = true;
      kill(pid, SIGINT);
    }
  };
  const Outcome polite =
      launch(2, "trap 'echo got it; exit 130' INT; echo ready; while true; do sleep 0.05; done", {},
             process);
  EXPECT_EQ(polite.code, 130);
  EXPECT_TRUE(contains(polite.out, "[0] got it\n"));
  EXPECT_TRUE(contains(polite.out, "[1] got it\n"));
  sent = false;
  const Outcome stubborn = launch(2, "trap '' INT; echo ready; while true; do sleep 0.05; done",
                                  {"--grace", "1"}, process);
  EXPECT_EQ(stubborn.code, 128 + SIGKILL);
}

TEST(Launcher, TheSameSignalTwiceIsOneAndASecondOneKills) {
  ProcessOptions process;
  const std::string script =
      "trap 'sleep 1; echo saved; exit 143' TERM; echo ready; while true; do sleep 0.05; done";
  for (const bool later : {false, true}) {
    bool sent = false;
    process.while_running = [&](int pid, const std::string& out) {
      if (!sent && out.find("[0] ready") != std::string::npos) {
        sent = true;
        kill(pid, SIGTERM);
        std::this_thread::sleep_for(std::chrono::milliseconds(later ? 700 : 20));
        kill(pid, SIGTERM);
      }
    };
    const Outcome outcome = launch(1, script, {}, process);
    EXPECT_EQ(outcome.code, later ? 128 + SIGKILL : 143);
    EXPECT_EQ(contains(outcome.out, "saved"), !later);
  }
}

// A rank that somebody asked to stop has agreed on it with the others, who may still be saving.
TEST(Launcher, ARankThatWasAskedToStopStopsAllAndNothingIsRestarted) {
  const TemporaryFolder folder;
  const std::string ready = (folder / "ready").string();
  const Outcome outcome = launch(2,
                                 concat("if test $RANK = 1; then while ! test -e ", ready,
                                        "; do sleep 0.02; done; exit 143; fi; "
                                        "trap 'sleep 1; echo saved; exit 143' TERM; touch ",
                                        ready, "; while true; do sleep 0.05; done"),
                                 {"--max-restarts", "3"});
  EXPECT_EQ(outcome.code, 143);
  EXPECT_TRUE(contains(outcome.out, "[0] saved")) << outcome.out;
  EXPECT_FALSE(contains(outcome.err, "restart")) << outcome.err;
}

TEST(Launcher, ARankThatPrintsWithoutEndStopsNobodyFromBeingHeard) {
  bool sent = false;
  ProcessOptions process;
  process.while_running = [&](int pid, const std::string& out) {
    if (!sent && out.size() > 1000) {
      sent = true;
      kill(pid, SIGINT);
    }
  };
  EXPECT_EQ(launch(2, "exec yes", {}, process).code, 128 + SIGINT);
}

TEST(Launcher, AReaderThatStallsDoesNotKeepASignalFromBeingHeard) {
  const TemporaryFolder folder;
  const Outcome outcome = run_process(
      {"sh", "-c",
       concat("mkfifo ", folder.path().string(), "/out; sleep 40 < ", folder.path().string(),
              "/out & reader=$!; ", command_path(), " launch --np 2 -- yes > ",
              folder.path().string(),
              "/out & pid=$!; sleep 0.5; kill -TERM $pid; wait $pid; echo code $?; kill $reader")});
  EXPECT_EQ(outcome.out, "code 143\n") << outcome.err;
}

// Both streams are one pipe, which is full now and then.
TEST(Launcher, LinesOfBothStreamsAreNotTornInOnePipe) {
  const Outcome outcome = run_process(
      {"sh", "-c",
       concat(command_path(),
              " launch --np 2 -- sh -c 'yes standard output | head -20000 & "
              "yes standard error | head -20000 >&2; wait' 2>&1 | dd bs=100 status=none")});
  std::istringstream lines(outcome.out);
  std::map<std::string, int> count;
  for (std::string line; std::getline(lines, line);) {
    ++count[line];
  }
  for (const char* rank : {"[0]", "[1]"}) {
    EXPECT_EQ(count[concat(rank, " standard output")], 20000);
    EXPECT_EQ(count[concat(rank, " standard error")], 20000);
  }
  EXPECT_EQ(count.size(), 5U) << "and the launcher's own line";
}

// A zombie that nobody has waited for does not count.
bool alive(const std::string& pid) {
  const std::string stat = concat("/proc/", std::stoi(pid), "/stat");
  return std::filesystem::exists(stat) && !contains(read_file(stat), ") Z ");
}

TEST(Launcher, AKilledLauncherLeavesNoRanks) {
  const TemporaryFolder folder;
  ProcessOptions process;
  process.while_running = [&](int pid, const std::string& out) {
    if (out.find("[0] ready") != std::string::npos && out.find("[1] ready") != std::string::npos) {
      kill(pid, SIGKILL);
    }
  };
  launch(2, "echo $$ > " + folder.path().string() + "/$RANK; echo ready; exec sleep 50", {},
         process);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_FALSE(alive(read_file(folder / "0")));
  EXPECT_FALSE(alive(read_file(folder / "1")));
}

// script(1) gives the launcher a terminal, which it does not read any more once its own output
// stalls.
TEST(FullLauncher, ATerminalThatStallsDoesNotKeepADeathFromBeingSeen) {
  const TemporaryFolder folder;
  const std::string in = folder.path().string();
  const Outcome outcome = run_process(
      {"sh", "-c",
       concat("cd ", in, "; mkfifo out; sleep 40 < out & reader=$!; ", "script -qec \"",
              command_path(),
              " launch --np 2 -- sh -c 'echo \\$\\$ > \\$RANK; test \\$RANK = 0 || { sleep 2; exit "
              "7; }; exec yes an odd line'\" /dev/null > out 2>&1 & terminal=$!; sleep 8; ",
              "kill $reader $terminal")});
  EXPECT_FALSE(alive(read_file(folder / "0"))) << outcome.out << outcome.err;
}

TEST(Launcher, ThreadsAreSharedOutUnlessTheUserSaysSo) {
  ProcessOptions process;
  process.environment = {"OMP_NUM_THREADS=3"};
  const Outcome outcome = launch(2, "echo $OMP_NUM_THREADS threads", {}, process);
  EXPECT_TRUE(contains(outcome.out, "[0] 3 threads"));
  EXPECT_EQ(outcome.err, "");
}

// As Kubeflow sets them for torchrun.
TEST(Launcher, ReadsTheVariablesOfTorchrun) {
  ProcessOptions process;
  process.environment = {"PET_NPROC_PER_NODE=2", "PET_NNODES=2",         "PET_NODE_RANK=1",
                         "PET_MASTER_ADDR=a",    "PET_MASTER_PORT=1234", "RINGGRAD_SECRET=s"};
  const Outcome outcome = ringgrad_command(
      {"launch", "--", "sh", "-c", "echo $RANK of $WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT"},
      process);
  EXPECT_TRUE(contains(outcome.out, "[3] 3 of 4 at a:1234\n")) << outcome.out << outcome.err;
}

TEST(Launcher, RestartsFailuresButNotMistakes) {
  const TemporaryFolder folder;
  const std::string once = "test $RINGGRAD_GENERATION = 1 || exit ";
  const Outcome again = launch(2, once + "9", {"--max-restarts", "2"});
  EXPECT_EQ(again.code, 0);
  EXPECT_TRUE(contains(again.err, "restart 1 of 2"));
  EXPECT_EQ(launch(2, once + "2", {"--max-restarts", "2"}).code, 2);
  EXPECT_EQ(launch(2, "exit 9", {"--max-restarts", "1"}).code, 9);
}

TEST(Launcher, MistakesAreNamed) {
  EXPECT_TRUE(contains(launch(0, "true").err, "--nproc-per-node is 0"));
  EXPECT_TRUE(contains(launch(1, "true", {"--nnodes", "2"}).err, "needs --master-addr"));
  EXPECT_TRUE(contains(launch(1, "true", {"--nnodes", "2", "--master-addr", "10.0.0.1"}).err,
                       "RINGGRAD_SECRET"));
  const Outcome nothing = ringgrad_command({"launch", "--np", "2", "--", "/no/such/program"});
  EXPECT_EQ(nothing.code, 2);
  EXPECT_TRUE(contains(nothing.err, "cannot start /no/such/program: No such file"));
}

}  // namespace
}  // namespace ringgrad::test
