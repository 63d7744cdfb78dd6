// Running programs, the `ringgrad` command above all.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace ringgrad::test {

struct Outcome {
  int code = 0;  // exit code, or 128 + signal
  std::string out, err;
};

struct ProcessOptions {
  std::vector<std::string> environment;  // "NAME=value", added to this process's
  // Called with the process id every 10 ms while it runs, and what it has printed so far.
  std::function<void(int pid, const std::string& out)> while_running;
  // Closes its ends of the pipes once this was printed: the reader has vanished.
  std::string stops_reading_after;
  std::chrono::seconds limit{50};  // killed after that
};

// Error-free or not, waits for the end. args[0] is the program.
Outcome run_process(const std::vector<std::string>& args, const ProcessOptions& options = {});
// The command under test with these arguments.
Outcome ringgrad_command(std::vector<std::string> args, const ProcessOptions& options = {});

}  // namespace ringgrad::test
