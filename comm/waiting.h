// Waiting for other ranks in shared memory: a short spin, then a futex that every rank rings after
// it changed something. Source: futex(2).
#pragma once

#include <atomic>
#include <cstdint>

namespace ringgrad::comm {

struct Doorbell {
  std::atomic<std::uint32_t> rings;
  std::atomic<std::uint32_t> sleepers;

  // After the change.
  void ring();
  // Sleeps until somebody rings after `seen` was read from `rings`; at most some milliseconds.
  void sleep(std::uint32_t seen);
};

// Tells the core that this is a spin.
void relax();

}  // namespace ringgrad::comm
