// How a block runs: its threads are fibers on one host thread, each resumed until it reaches a
// barrier or returns, in a fixed order, round after round.
//
//   round 1   t0 ──▶ barrier   t1 ──▶ barrier   …   tN ──▶ barrier      all arrived: the barrier
//   opens round 2   t0 ──▶ return    t1 ──▶ return    …   tN ──▶ return       all returned: the
//   block is done
//
// A thread that returned while another waits at a barrier would hang or corrupt a GPU; it is
// reported with block and thread, and the program stops, since a kernel has no way to fail.
#pragma once

#include <functional>

#include "cuda_runtime.h"

namespace emulator {

// Runs all blocks of a grid, one after the other.
void run_grid(dim3 grid, dim3 block, const std::function<void()>& kernel);

}  // namespace emulator
