// What the outside world asks of a running training: SIGINT and SIGTERM end it at the next step,
// with a checkpoint; SIGHUP (a terminal that went away) and SIGPIPE end nothing.
#pragma once

namespace ringgrad::training {

// Takes the handlers for as long as it lives. A second SIGINT or SIGTERM kills at once, unless it
// follows the first so closely that it is the same one (comm/launcher.h). SIGHUP, SIGPIPE and
// SIGXFSZ stay ignored afterwards: what a run prints last must not end it either.
class SignalGuard {
 public:
  SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;
  ~SignalGuard();
};

// The signal that asked for the end, or 0.
int stop_signal();
// The ranks have agreed on the end: a signal that comes now, from a launcher that hears of it and
// tells them all, is the first one again.
void stop_is_agreed();

}  // namespace ringgrad::training
