#include "training/signals.h"

#include <atomic>
#include <chrono>
#include <csignal>

#include "comm/launcher.h"

namespace ringgrad::training {
namespace {

using Clock = std::chrono::steady_clock;

// A handler may touch nothing but such.
std::atomic<int> received{0};
std::atomic<Clock::rep> received_at{0};
static_assert(std::atomic<Clock::rep>::is_always_lock_free);

void on_stop(int signal) {
  const Clock::rep now = Clock::now().time_since_epoch().count();
  if (received == 0) {
    received_at = now;
    received = signal;
  } else if (Clock::duration(now - received_at) > comm::kSameSignal) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

}  // namespace

SignalGuard::SignalGuard() {
  received = 0;
  std::signal(SIGINT, on_stop);
  std::signal(SIGTERM, on_stop);
  std::signal(SIGHUP, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes fails the write, which says so
}

SignalGuard::~SignalGuard() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

void stop_is_agreed() {
  received = 0;
}

int stop_signal() {
  return received;
}

}  // namespace ringgrad::training
