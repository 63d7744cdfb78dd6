#include "training/signals.h"

#include <csignal>

namespace ringgrad::training {
namespace {

// A handler may touch nothing else than this.
volatile std::sig_atomic_t received = 0;

void on_stop(int signal) {
  received = signal;
  std::signal(signal, SIG_DFL);
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

int stop_signal() {
  return received;
}

}  // namespace ringgrad::training
