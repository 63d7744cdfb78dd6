#include "tests/support/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "runtime/error.h"
#include "tests/support/paths.h"

extern char** environ;

namespace ringgrad::test {
namespace {

// Reads what is there without waiting; false at the end.
bool drain(int descriptor, std::string& to) {
  char chunk[4096];
  const ssize_t got = read(descriptor, chunk, sizeof chunk);
  if (got > 0) {
    to.append(chunk, static_cast<std::size_t>(got));
  }
  return got != 0;
}

}  // namespace

Outcome run_process(const std::vector<std::string>& args, const ProcessOptions& options) {
  int out[2];
  int err[2];
  RINGGRAD_ASSERT(pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
  std::vector<char*> argv;
  for (const std::string& arg : args) {
    argv.push_back(const_cast<char*>(arg.c_str()));
  }
  argv.push_back(nullptr);
  std::vector<char*> environment;
  for (const std::string& entry : options.environment) {
    environment.push_back(const_cast<char*>(entry.c_str()));
  }
  for (char** entry = environ; *entry != nullptr; ++entry) {
    environment.push_back(*entry);
  }
  environment.push_back(nullptr);
  pid_t pid = 0;
  const int code = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  close(err[1]);
  RINGGRAD_CHECK(code == 0, "cannot start ", args[0]);

  Outcome outcome;
  const auto end = std::chrono::steady_clock::now() + options.limit;
  pollfd files[2] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
  std::string* texts[2] = {&outcome.out, &outcome.err};
  int open_files = 2;
  while (open_files > 0) {
    poll(files, 2, 10);
    for (int i = 0; i < 2; ++i) {
      if ((files[i].revents & (POLLIN | POLLHUP)) != 0 && !drain(files[i].fd, *texts[i])) {
        close(files[i].fd);
        files[i].fd = -1;
        --open_files;
      }
    }
    if (options.while_running && open_files > 0) {
      options.while_running(pid, outcome.out);
    }
    if (!options.stops_reading_after.empty() &&
        outcome.out.find(options.stops_reading_after) != std::string::npos) {
      break;
    }
    if (std::chrono::steady_clock::now() > end) {
      kill(pid, SIGKILL);
    }
  }
  for (const pollfd& file : files) {
    if (file.fd >= 0) {
      close(file.fd);
    }
  }
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) {
      kill(pid, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  outcome.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return outcome;
}

Outcome ringgrad_command(std::vector<std::string> args, const ProcessOptions& options) {
  args.insert(args.begin(), command_path());
  return run_process(args, options);
}

}  // namespace ringgrad::test
