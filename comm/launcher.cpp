// One thread does everything: it waits for output, for ends and for time to pass. Ranks are made by
// fork before the store's thread exists.
#include "comm/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "comm/line_writer.h"
#include "comm/rendezvous.h"
#include "comm/secret.h"
#include "comm/socket.h"
#include "comm/store.h"
#include "runtime/cpu_features.h"
#include "runtime/error.h"
#include "runtime/file.h"

extern char** environ;

namespace ringgrad::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMultiNodePort = 29500;
// Ranks hear of a failure from the store and end by themselves; who does not is told, then killed.
constexpr std::chrono::seconds kUntilTold{3};
constexpr std::chrono::seconds kUntilKilled{4};
constexpr std::chrono::seconds kUntilDrained{5};
// For the ranks of other nodes, which the store tells why the job ended.
constexpr std::chrono::seconds kUntilLeft{30};

volatile std::sig_atomic_t signals_seen = 0;
volatile std::sig_atomic_t last_signal = 0;

void on_signal(int signal) {
  signals_seen = signals_seen + 1;
  last_signal = signal;
}

bool signalled() {
  return signals_seen > 0;
}

// While it lives, no signal reaches this thread: a child that has not yet given up the launcher's
// handlers would lose it.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : {SIGINT, SIGTERM}) {
      sigaddset(&set, signal);
    }
    pthread_sigmask(SIG_BLOCK, &set, &before_);
  }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals() { restore(); }
  void restore() const { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

struct Child {
  int rank = 0;
  pid_t pid = -1;
  std::optional<int> code;
  std::vector<LineWriter> output;  // stdout, stderr
  Socket log;
};

int threads_of_each(const LaunchOptions& options) {
  return std::max(1, cpu_features().cores / options.ranks);
}

std::string description_of(int rank, int code) {
  return code > 128 ? concat("rank ", rank, " was killed by signal ", code - 128, " (",
                             strsignal(code - 128), ")")
                    : concat("rank ", rank, " exited with code ", code);
}

// The ranks of this node, from their start to their end; one object for each (re)start.
class Job {
 public:
  Job(const LaunchOptions& options, const std::string& job, const std::string& secret,
      int generation, OutputStreams& output)
      : options_(options), job_(job), secret_(secret), generation_(generation), output_(output) {}

  int run() {
    Socket listener;
    int port = options_.master_port != 0 ? options_.master_port
                                         : (options_.nodes > 1 ? kMultiNodePort : 0);
    if (options_.node_rank == 0) {
      listener = listen_tcp(options_.nodes == 1 ? "127.0.0.1" : "", port);
      port = port_of(listener);
    }
    try {
      for (int local = 0; local < options_.ranks; ++local) {
        start(local, port);
      }
    } catch (...) {
      signal_all(SIGKILL);
      throw;
    }
    if (options_.node_rank == 0) {
      store_ = std::make_unique<StoreServer>(
          JobIdentity{job_, secret_, "", options_.nodes * options_.ranks, generation_},
          std::move(listener));
    }
    while (!all_ended()) {
      read_output();
      reap();
      keep_order();
    }
    drain();
    wait_for_other_nodes();
    return first_failure_.value_or(0);
  }
  // Of the launcher, or of a rank: then the job is not started again.
  bool asked_to_stop() const { return stopping_since_.has_value(); }

 private:
  void start(int local, int port) {
    int out[2];
    int err[2];
    RINGGRAD_CHECK(pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0,
                   "cannot make pipes: ", std::strerror(errno));
    children_.emplace_back();
    Child& child = children_.back();
    child.rank = options_.node_rank * options_.ranks + local;
    const std::vector<std::string> environment = environment_of(child.rank, local, port);
    std::vector<char*> entries = pointers(environment);
    std::vector<char*> arguments = pointers(options_.command);
    const pid_t parent = getpid();
    const BlockedSignals blocked;
    child.pid = fork();
    RINGGRAD_CHECK(child.pid >= 0, "cannot start a process: ", std::strerror(errno));
    setpgid(child.pid, child.pid);  // whichever of both comes first
    if (child.pid == 0) {
      become_rank(out[1], err[1], parent, arguments.data(), entries.data(), blocked);
    }
    close(out[1]);
    close(err[1]);
    const std::string prefix = concat("[", child.rank, "] ");
    if (!options_.log_dir.empty()) {
      const std::string path = concat(options_.log_dir, "/rank-", child.rank, ".log");
      child.log = Socket(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
      RINGGRAD_CHECK(child.log.valid(), "cannot write ", system_error(path, errno));
    }
    for (const auto& [end, to] : {std::pair{out[0], &output_.out()}, {err[0], &output_.err()}}) {
      fcntl(end, F_SETFL, O_NONBLOCK);
      child.output.emplace_back(Socket(end), *to, prefix, child.log.descriptor());
    }
  }

  // In the child: nothing that allocates.
  [[noreturn]] static void become_rank(int out, int err, pid_t parent, char** arguments,
                                       char** entries, const BlockedSignals& blocked) {
    // A group of its own: Ctrl-C reaches the launcher alone, which passes it on once.
    setpgid(0, 0);
    // However the launcher ends, its ranks end too.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
      _exit(128 + SIGKILL);
    }
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
      std::signal(signal, SIG_DFL);
    }
    blocked.restore();
    const int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    execvpe(arguments[0], arguments, entries);
    const char* reason = std::strerror(errno);
    for (const char* part :
         {"cannot start ", static_cast<const char*>(arguments[0]), ": ", reason, "\n"}) {
      if (write(STDERR_FILENO, part, std::strlen(part)) < 0) {
        break;
      }
    }
    _exit(2);
  }

  std::vector<std::string> environment_of(int rank, int local, int port) const {
    std::map<std::string, std::string> variables{
        {"RANK", std::to_string(rank)},
        {"WORLD_SIZE", std::to_string(options_.nodes * options_.ranks)},
        {"LOCAL_RANK", std::to_string(local)},
        {"LOCAL_WORLD_SIZE", std::to_string(options_.ranks)},
        {"GROUP_RANK", std::to_string(options_.node_rank)},
        {"MASTER_ADDR", options_.master_addr},
        {"MASTER_PORT", std::to_string(port)},
        {"RINGGRAD_STORE", "hosted"},
        {"RINGGRAD_JOB_ID", job_},
        {"RINGGRAD_SECRET", secret_},
        {"RINGGRAD_GENERATION", std::to_string(generation_)},
        {"OMP_NUM_THREADS", std::to_string(threads_of_each(options_))}};
    std::vector<std::string> entries;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string text = *entry;
      const std::string name = text.substr(0, text.find('='));
      if (name == "OMP_NUM_THREADS") {
        variables.erase(name);  // the user's wins
      }
      if (variables.count(name) == 0) {
        entries.push_back(text);
      }
    }
    for (const auto& [name, value] : variables) {
      entries.push_back(concat(name, "=", value));
    }
    return entries;
  }

  static std::vector<char*> pointers(const std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (const std::string& text : texts) {
      all.push_back(const_cast<char*>(text.c_str()));
    }
    all.push_back(nullptr);
    return all;
  }

  bool all_ended() const {
    return std::all_of(children_.begin(), children_.end(),
                       [](const Child& child) { return child.code.has_value(); });
  }

  void read_output() {
    std::vector<pollfd> files;
    std::vector<LineWriter*> writers;
    for (Child& child : children_) {
      for (LineWriter& writer : child.output) {
        if (writer.ready()) {
          files.push_back({writer.descriptor(), POLLIN, 0});
          writers.push_back(&writer);
        }
      }
    }
    for (OutputQueue* queue : output_.all()) {
      if (!queue->empty()) {
        files.push_back({queue->descriptor(), POLLOUT, 0});
      }
    }
    poll(files.data(), files.size(), 20);
    for (std::size_t i = 0; i < writers.size(); ++i) {
      if (files[i].revents != 0) {
        writers[i]->read_on();
      }
    }
    output_.flush(signalled());
  }

  void reap() {
    for (Child& child : children_) {
      int status = 0;
      if (child.code || waitpid(child.pid, &status, WNOHANG) != child.pid) {
        continue;
      }
      child.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      // What a rank left running would keep the pipes open.
      kill(-child.pid, SIGKILL);
      // Who ended because of another rank's failure, or by our hand, is not its cause, whoever
      // ended first.
      const bool cause = !first_failure_ || (first_failure_ == kPeerFailed && !told_);
      if (*child.code != 0 && cause && (!first_failure_ || *child.code != kPeerFailed)) {
        failed_at_ = first_failure_ ? failed_at_ : Clock::now();
        first_failure_ = *child.code;
        const std::string what = description_of(child.rank, *child.code);
        // A rank that was asked to stop has agreed with the others on it.
        if (WIFEXITED(status) && (*child.code == 128 + SIGINT || *child.code == 128 + SIGTERM)) {
          stop_all(*child.code - 128);
        }
        if (!asked_to_stop()) {
          output_.err().put(concat("ringgrad launch: ", what, "; ending all ranks\n"));
          if (store_ != nullptr) {
            store_->fail(what);
          }
        }
      }
    }
  }

  // Signals and failures: passes them on, and ends what does not end by itself.
  void keep_order() {
    const auto now = Clock::now();
    if (signals_seen > signals_passed_) {
      signals_passed_ = signals_seen;
      if (!signalled_at_) {
        signalled_at_ = now;
        stop_all(last_signal);
      } else if (now - *signalled_at_ > kSameSignal) {
        signal_all(SIGKILL);
      }
    }
    // While ranks save after a signal, the grace time counts, not a failure's.
    if (stopping_since_ && now - *stopping_since_ > options_.grace) {
      signal_all(SIGKILL);
    }
    if (first_failure_ && !stopping_since_) {
      if (!told_ && now - failed_at_ > kUntilTold) {
        told_ = true;
        signal_all(SIGTERM);
      }
      if (now - failed_at_ > kUntilTold + kUntilKilled) {
        signal_all(SIGKILL);
      }
    }
  }

  // Passes a signal on, once, whoever had it first.
  void stop_all(int signal) {
    if (!stopping_since_) {
      stopping_since_ = Clock::now();
      signal_all(signal);
    }
  }

  void signal_all(int signal) {
    for (const Child& child : children_) {
      if (!child.code && child.pid > 0) {
        kill(-child.pid, signal);
      }
    }
  }

  // What the ranks left in the pipes. Whoever still writes there has outlived its rank.
  void drain() {
    const Deadline deadline(kUntilDrained);
    for (Child& child : children_) {
      for (LineWriter& writer : child.output) {
        while (writer.open() && !deadline.passed() && writer.read_on()) {
          if (!writer.ready()) {
            output_.drain(signalled);
          }
        }
        if (writer.open()) {
          writer.finish();
        }
      }
    }
  }

  void wait_for_other_nodes() {
    output_.drain(signalled);
    const Deadline deadline(kUntilLeft);
    while (store_ != nullptr && signals_seen == signals_passed_ && !deadline.passed() &&
           !store_->wait_until_left(Deadline(std::chrono::milliseconds(100)))) {
    }
  }

  const LaunchOptions& options_;
  const std::string& job_;
  const std::string& secret_;
  int generation_;
  OutputStreams& output_;
  std::vector<Child> children_;
  std::unique_ptr<StoreServer> store_;
  std::optional<int> first_failure_;
  Clock::time_point failed_at_;
  std::optional<Clock::time_point> signalled_at_, stopping_since_;
  int signals_passed_ = 0;
  bool told_ = false;
};

void check(const LaunchOptions& options) {
  RINGGRAD_CHECK(!options.command.empty(), "launch: no program to start");
  RINGGRAD_CHECK(options.ranks >= 1, "--nproc-per-node is ", options.ranks,
                 "; expected at least 1");
  RINGGRAD_CHECK(options.nodes >= 1, "--nnodes is ", options.nodes, "; expected at least 1");
  RINGGRAD_CHECK(options.node_rank >= 0 && options.node_rank < options.nodes, "--node-rank is ",
                 options.node_rank, " of ", options.nodes, " nodes");
  RINGGRAD_CHECK(options.nodes == 1 || options.master_addr != "127.0.0.1", "--nnodes ",
                 options.nodes, " needs --master-addr, the address of node 0");
  RINGGRAD_CHECK(options.master_port >= 0 && options.master_port < 65536, "--master-port is ",
                 options.master_port);
  RINGGRAD_CHECK(options.max_restarts >= 0, "--max-restarts is ", options.max_restarts);
  RINGGRAD_CHECK(options.grace.count() >= 0, "--grace is ", options.grace.count());
}

// Of all nodes: what the user set. On one node, made up.
std::string secret_of(const LaunchOptions& options) {
  const std::string given = secret_from(process_environment, options.secret_file);
  RINGGRAD_CHECK(options.nodes == 1 || !given.empty(), kSecretNeeded);
  return given.empty() ? random_hex(32) : given;
}

}  // namespace

int launch(const LaunchOptions& options) {
  check(options);
  const std::string secret = secret_of(options);
  const char* given = std::getenv("RINGGRAD_JOB_ID");
  const std::string job = given != nullptr     ? given
                          : options.nodes == 1 ? "job-" + random_hex(8)
                                               : "ringgrad";
  if (!options.log_dir.empty()) {
    std::filesystem::create_directories(options.log_dir);
  }
  signals_seen = 0;
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  std::signal(SIGHUP, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  OutputStreams output;
  const struct Rest {  // also where something is thrown
    ~Rest() { output.drain(signalled); }
    OutputStreams& output;
  } rest{output};
  if (options.ranks > 1 && std::getenv("OMP_NUM_THREADS") == nullptr) {
    output.err().put(concat("ringgrad launch: ", options.ranks, " ranks, ",
                            counted(threads_of_each(options), "thread"),
                            " each (OMP_NUM_THREADS sets another number)\n"));
  }
  for (int generation = 0;; ++generation) {
    Job attempt(options, job, secret, generation, output);
    const int code = attempt.run();
    const bool mistake = code == 2;
    if (code == 0 || mistake || signals_seen > 0 || attempt.asked_to_stop() ||
        generation == options.max_restarts) {
      return code;
    }
    output.err().put(
        concat("ringgrad launch: restart ", generation + 1, " of ", options.max_restarts, "\n"));
  }
}

}  // namespace ringgrad::comm
