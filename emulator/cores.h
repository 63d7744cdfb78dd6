// The cores that run blocks: threads that live as long as the program, beside the one that asks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace emulator {

// Runs `body` on as many cores as `jobs` can use, at most RINGGRAD_EMULATOR_CORES (by default all
// that this process may use), the caller's among them; returns when all are through. One grid at a
// time: others wait.
void on_cores(std::uint64_t jobs, const std::function<void()>& body);

// While it lives, this core runs what describe(what) names; if that takes longer than
// RINGGRAD_EMULATOR_WATCHDOG seconds (by default 300), it is reported and the program stops: it
// waits for a block that cannot run beside it.
class BlockWatch {
 public:
  using Describe = std::string (*)(const void* what);
  BlockWatch(Describe describe, const void* what);
  BlockWatch(const BlockWatch&) = delete;
  BlockWatch& operator=(const BlockWatch&) = delete;
  ~BlockWatch();

 private:
  std::uint64_t ticket_;
};

// For tests.
void set_watchdog(double seconds);

}  // namespace emulator
