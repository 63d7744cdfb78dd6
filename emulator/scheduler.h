// How a grid runs. Blocks are taken by the cores of the machine; the threads of a block are fibers
// on one core, resumed one after the other until each waits or returns.
//
//   round 1   t0 ──▶ barrier     t1 ──▶ barrier     …   all wait there: the barrier opens
//   round 2   t0 ──▶ shuffle     t1 ──▶ shuffle     …   a warp's lanes are complete: they go on
//   round 3   t0 ──▶ return      t1 ──▶ return      …   all returned: the block is done
//
// A barrier opens when every thread of the block waits at it, a warp's operation when every lane
// that its mask names does. A round in which nobody can be resumed would hang a GPU, or give it
// wrong results: it is reported, with the place where each side waits, and the program stops, since
// a kernel has no way to fail.
//
// A correct kernel gives the same results whatever the order of blocks and threads: forward,
// reverse, or shuffled anew in each round (order.h).
#pragma once

#include <functional>
#include <string>

#include "cuda_runtime.h"

namespace emulator {

struct Grid {
  dim3 blocks, threads;
  const std::function<void()>& kernel;
  Site site;  // where it was launched
};

void run_grid(const Grid& grid);

// What a thread waits for, and what lanes of a warp tell each other.
struct Arrival {
  enum class Kind { barrier, warp_barrier, shuffle, vote };
  Kind kind = Kind::barrier;
  Site site;
  unsigned mask = 0;  // of lanes
  std::uint64_t value = 0;
};

// Prints "emulator: ", the text and where the running thread is, and stops the program.
[[noreturn]] void report(const std::string& text);

}  // namespace emulator
