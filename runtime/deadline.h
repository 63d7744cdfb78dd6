// A point in time after which waiting is an error. Nothing in the project waits without one.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace ringgrad {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Deadline(std::chrono::milliseconds from_now) : end_(Clock::now() + from_now) {}

  bool passed() const { return Clock::now() >= end_; }
  // Waits until ready() holds; false if the deadline came first.
  template <class Ready>
  bool wait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
            Ready&& ready) const {
    return changed.wait_until(lock, end_, ready);
  }

 private:
  Clock::time_point end_;
};

}  // namespace ringgrad
