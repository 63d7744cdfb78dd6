#include "cores.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace emulator {
namespace {

using Clock = std::chrono::steady_clock;

double number_from(const char* variable, double otherwise) {
  const char* text = std::getenv(variable);
  const double number = text != nullptr ? std::atof(text) : 0;
  return number > 0 ? number : otherwise;
}

unsigned usable_cores() {
  cpu_set_t set;
  int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
#ifdef EMULATOR_TSAN
  count =
      1;  // each core keeps thousands of the sanitizer's threads, and two get into each other's way
#endif
  return static_cast<unsigned>(number_from("RINGGRAD_EMULATOR_CORES", count));
}

class Cores {
 public:
  Cores() {
    for (unsigned i = 1; i < usable_cores(); ++i) {
      threads_.emplace_back([this] { serve(); });
    }
  }
  ~Cores() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }

  void run(std::uint64_t jobs, const std::function<void()>& body) {
    const std::lock_guard<std::mutex> turn(turn_);
    const auto helpers = static_cast<unsigned>(
        std::min<std::uint64_t>(threads_.size(), std::max<std::uint64_t>(jobs, 1) - 1));
    if (helpers > 0) {
      const std::lock_guard<std::mutex> lock(mutex_);
      body_ = &body;
      wanted_ = helpers;
      busy_ = helpers;
    }
    if (helpers > 0) {
      changed_.notify_all();
    }
    body();
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return busy_ == 0; });
  }

 private:
  void serve() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stopping_ || wanted_ > 0; });
      if (stopping_) {
        return;
      }
      --wanted_;
      const std::function<void()>& body = *body_;
      lock.unlock();
      body();
      lock.lock();
      if (--busy_ == 0) {
        changed_.notify_all();
      }
    }
  }

  std::mutex turn_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  const std::function<void()>* body_ = nullptr;
  unsigned wanted_ = 0, busy_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

// Looks now and then whether something has run for too long.
class Watchdog {
 public:
  Watchdog()
      : seconds_(number_from("RINGGRAD_EMULATOR_WATCHDOG", 300)), thread_([this] { look(); }) {}
  ~Watchdog() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  std::uint64_t begin(BlockWatch::Describe describe, const void* what) {
    const std::lock_guard<std::mutex> lock(mutex_);
    running_[++last_] = {describe, what, Clock::now()};
    return last_;
  }
  void end(std::uint64_t ticket) {
    const std::lock_guard<std::mutex> lock(mutex_);
    running_.erase(ticket);
  }
  void set(double seconds) { seconds_ = seconds; }

 private:
  void look() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!stopping_) {
      changed_.wait_for(lock, std::chrono::milliseconds(200));
      for (const auto& [ticket, what] : running_) {
        const std::chrono::duration<double> took = Clock::now() - what.since;
        if (took.count() > seconds_) {
          std::fprintf(stderr,
                       "emulator: %s has run for %.0f s without an end: does it wait for another "
                       "block? Blocks need not run at the same time\n",
                       what.describe(what.what).c_str(), took.count());
          std::abort();
        }
      }
    }
  }
  struct What {
    BlockWatch::Describe describe;
    const void* what;
    Clock::time_point since;
  };
  std::atomic<double> seconds_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::map<std::uint64_t, What> running_;
  std::uint64_t last_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

Watchdog& watchdog() {
  static Watchdog the_watchdog;
  return the_watchdog;
}

}  // namespace

void on_cores(std::uint64_t jobs, const std::function<void()>& body) {
  static Cores cores;
  cores.run(jobs, body);
}

BlockWatch::BlockWatch(Describe describe, const void* what)
    : ticket_(watchdog().begin(describe, what)) {}
BlockWatch::~BlockWatch() {
  watchdog().end(ticket_);
}

void set_watchdog(double seconds) {
  watchdog().set(seconds);
}

}  // namespace emulator
