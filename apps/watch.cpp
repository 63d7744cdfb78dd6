#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <thread>

#include "apps/commands.h"
#include "runtime/error.h"
#include "training/run_folder.h"

namespace ringgrad::apps {
namespace {

struct WatchCommand {
  std::string run;
  bool once = false;
};

// Prints the log as it grows and, below it, the progress line, until the run says that it ended or
// its process is gone.
int run(const WatchCommand& command) {
  const training::RunFolder folder(command.run);
  std::ifstream log(folder.log());
  RINGGRAD_CHECK(log.good(), command.run, " is not the folder of a run: it has no run.log");
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  const char* erase = terminal ? "\r\033[K" : "";
  bool ended = false;
  bool running = true;
  for (;;) {
    for (std::string line; std::getline(log, line);) {
      std::printf("%s%s\n", erase, line.c_str());
      ended = line.rfind("done:", 0) == 0 || line.rfind("stopped by signal", 0) == 0 ||
              line.rfind("failed:", 0) == 0;
    }
    log.clear();
    // Looked at before the next lines are read: a run's last lines come before it lets go.
    const bool gone = !ended && !running;
    running = folder.is_in_use();
    std::string progress;
    std::ifstream progress_file(folder.progress());
    if (!ended && std::getline(progress_file, progress)) {
      std::printf("%s%s%s", erase, progress.c_str(), terminal ? "" : "\n");
    }
    std::fflush(stdout);
    if (ended || command.once) {
      std::printf("%s", terminal ? "\n" : "");
      return 0;
    }
    RINGGRAD_CHECK(!gone, command.run,
                   ": no process runs it any more, and its log does not say that it ended: it was "
                   "killed; continue it with: ringgrad train --resume --out ",
                   command.run);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
}

}  // namespace

Action add_watch(CLI::App& parent) {
  auto command = std::make_shared<WatchCommand>();
  CLI::App& app = *parent.add_subcommand("watch", "Follow a running training from anywhere");
  app.footer("Example:\n  ringgrad watch runs/cifar-net-1");
  app.add_option("run", command->run, "The run's folder")->required();
  app.add_flag("--once", command->once, "Print where it stands and leave");
  return [command] { return run(*command); };
}

}  // namespace ringgrad::apps
