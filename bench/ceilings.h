// What this machine can do at most, measured: the ceilings that benchmarks are held against.
#pragma once

namespace ringgrad::bench {

// Fused multiply-adds from registers on all `threads`, in GFLOP/s.
double peak_gflops(int threads);
// Copying memory much larger than the caches, bytes read and written, in GB/s.
double copy_gbps(int threads);

}  // namespace ringgrad::bench
