// Starts the ranks of a job on this host, any program, and stays with them: passes signals on, puts
// their output together line by line, and ends all of them when one fails.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace ringgrad::comm {

struct LaunchOptions {
  std::vector<std::string> command;  // program and arguments
  int ranks = 1;                     // on this node
  int nodes = 1;
  int node_rank = 0;
  std::string master_addr = "127.0.0.1";
  int master_port = 0;             // 0: with one node any free one, else PyTorch's 29500
  int max_restarts = 0;            // after a failure that is no mistake of the user's (exit code 2)
  std::string log_dir;             // a file for each rank there, besides
  std::string secret_file;         // instead of RINGGRAD_SECRET; on one node a secret is made
  std::chrono::seconds grace{30};  // from a signal until what still runs is killed
};

// Of two signals that close the second is the first once more, sent to a process and to its group
// (as timeout(1) does).
constexpr std::chrono::milliseconds kSameSignal{500};

// Exit code of a rank that ended because another one failed (EX_TEMPFAIL of sysexits.h).
constexpr int kPeerFailed = 75;

// Returns the job's exit code: 0, or that of the first rank that failed (128 + n for a signal).
// Error for a mistake, before anything is started.
int launch(const LaunchOptions& options);

}  // namespace ringgrad::comm
