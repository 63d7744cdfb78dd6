// Two hosts on one machine: network namespaces, joined by a virtual cable.
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "runtime/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace ringgrad::test {
namespace {

class FullNamespaces : public testing::Test {
 protected:
  void SetUp() override {
    const std::string id = std::to_string(getpid());
    for (const char* side : {"a", "b"}) {
      hosts_.push_back("ringgrad-" + id + side);
      cables_.push_back("rg" + id + side);
    }
    bool ok = ip("netns add " + hosts_[0]) && ip("netns add " + hosts_[1]) &&
              ip("link add " + cables_[0] + " type veth peer name " + cables_[1]);
    for (std::size_t i = 0; ok && i < 2; ++i) {
      const std::string inside = "-n " + hosts_[i] + " ";
      ok = ip("link set " + cables_[i] + " netns " + hosts_[i]) &&
           ip(inside + "addr add " + kAddress[i] + "/24 dev " + cables_[i]) &&
           ip(inside + "link set " + cables_[i] + " up") && ip(inside + "link set lo up");
    }
    if (!ok) {
      GTEST_SKIP() << "no permission to make network namespaces (or no ip command)";
    }
  }
  void TearDown() override {
    for (const std::string& host : hosts_) {
      ip("netns del " + host);
    }
  }

  static bool ip(const std::string& arguments) {
    return run_process({"sh", "-c", "ip " + arguments}).code == 0;
  }
  void cable(const char* state) { ip("-n " + hosts_[0] + " link set " + cables_[0] + " " + state); }

  // Two ranks on this host of two.
  Outcome launch(std::size_t host, const std::filesystem::path& out,
                 const ProcessOptions& given = {}) {
    ProcessOptions process = given;
    process.environment.emplace_back("RINGGRAD_SECRET=of the test");
    process.limit = std::chrono::seconds(120);
    return run_process({"ip",
                        "netns",
                        "exec",
                        hosts_[host],
                        command_path(),
                        "launch",
                        "-np",
                        "2",
                        "--nnodes",
                        "2",
                        "--node-rank",
                        std::to_string(host),
                        "--master-addr",
                        kAddress[0],
                        "--max-restarts",
                        "2",
                        "--",
                        command_path(),
                        "train",
                        "--data",
                        "synthetic:32x32",
                        "--samples",
                        "1024",
                        "--epochs",
                        "8",
                        "--out",
                        out.string()},
                       process);
  }

  static constexpr const char* kAddress[2] = {"10.77.31.1", "10.77.31.2"};
  std::vector<std::string> hosts_, cables_;
  TemporaryFolder folder_;
};

TEST_F(FullNamespaces, ACutCableEndsBothHostsAndTheRestartedRunHasTheSameBits) {
  for (const char* run : {"whole", "cut"}) {
    Outcome outcomes[2];
    std::thread second([&] { outcomes[1] = launch(1, folder_ / run); });
    bool cut = false;
    ProcessOptions first;
    first.while_running = [&](int, const std::string& out) {
      if (!cut && std::string(run) == "cut" && out.find("epoch 2/8") != std::string::npos) {
        cut = true;
        cable("down");
        std::this_thread::sleep_for(std::chrono::seconds(13));
        cable("up");
      }
    };
    outcomes[0] = launch(0, folder_ / run, first);
    second.join();
    EXPECT_EQ(outcomes[0].code, 0) << outcomes[0].err;
    EXPECT_EQ(outcomes[1].code, 0) << outcomes[1].err;
    EXPECT_TRUE(contains(outcomes[0].out, "ring over TCP"));
    if (cut) {
      EXPECT_TRUE(contains(outcomes[0].err, "no sign of life for 10 s"));
      EXPECT_TRUE(contains(outcomes[1].err, "is lost: no sign of life for 10 s"));
      EXPECT_TRUE(contains(outcomes[0].err, "restart 1 of 2"));
    }
  }
  EXPECT_EQ(read_file(folder_ / "cut/best.safetensors"),
            read_file(folder_ / "whole/best.safetensors"));
}

// A shell that reaches the other host stands for ssh; each host has a name of its own.
TEST_F(FullNamespaces, UnderMpirunRanksOfTwoHostsMeetWithoutBeingTold) {
  if (!mpirun_is_there()) {
    GTEST_SKIP() << "built without MPI, or no mpirun";
  }
  const std::string agent = (folder_ / "agent").string();
  write_file(agent, concat("#!/bin/sh\nhost=$1; shift\nexec ip netns exec ", hosts_[1],
                           " unshare --uts sh -c \"hostname second; $*\"\n"));
  std::filesystem::permissions(agent, std::filesystem::perms::owner_all);
  ProcessOptions process = for_mpirun();
  const Outcome outcome =
      run_process({"ip", "netns", "exec", hosts_[0], "unshare", "--uts", "sh", "-c",
                   concat("hostname first; exec mpirun --mca plm_rsh_agent ", agent,
                          " --mca btl_tcp_if_include 10.77.31.0/24 -H ", kAddress[0], ":2,",
                          kAddress[1], ":2 -np 4 --oversubscribe ", command_path(),
                          " train --data synthetic:32x32 --samples 128 --epochs 1 --out ",
                          (folder_ / "run").string())},
                  process);
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "4 replicas (MPI)")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "done: best test accuracy")) << outcome.out;
}

}  // namespace
}  // namespace ringgrad::test
