// Included by .cu files only: how kernels are started and how shared arrays are declared, the same
// under nvcc and over the emulator.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/kernels.h"
#include "runtime/cuda/check.h"

#ifdef RINGGRAD_EMULATED
#define RINGGRAD_SHARED_ARRAY(Type, name, count) \
  static const char name##_site = 0;             \
  Type(&name)[count] =                           \
      *static_cast<Type(*)[count]>(::emulator::shared_array(&name##_site, sizeof(Type) * (count)))
#else
#define RINGGRAD_SHARED_ARRAY(Type, name, count) __shared__ Type name[count]
#endif

namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE {

// Starts kernel(args...) on the replica's compute stream and checks that it could be started. The
// arguments are converted to the kernel's own parameter types.
template <class... Parameters, class... Args>
void launch(Context& context, dim3 grid, dim3 block, void (*kernel)(Parameters...),
            const Args&... args) {
  const auto stream = static_cast<cudaStream_t>(context.compute_stream().handle());
#ifdef RINGGRAD_EMULATED
  ::emulator::launch(grid, block, stream, [&] { kernel(static_cast<Parameters>(args)...); });
#else
  // clang-format off
  kernel<<<grid, block, 0, stream>>>(static_cast<Parameters>(args)...);
  // clang-format on
#endif
  RINGGRAD_CHECK_CUDA(cudaGetLastError());
}

constexpr unsigned kThreads = 256;

// Blocks for a grid-stride loop over n items: enough to fill a large chip, never past a grid limit.
inline unsigned blocks_for(Index n) {
  constexpr Index kMost = 4096;
  return static_cast<unsigned>(std::max<Index>(1, std::min(kMost, (n + kThreads - 1) / kThreads)));
}

// The loop itself: for (Index i = grid_start(); i < n; i += grid_step()).
__device__ inline Index grid_start() {
  return static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline Index grid_step() {
  return static_cast<Index>(gridDim.x) * blockDim.x;
}

// The sum of one value per thread of a block of kThreads, in a fixed order; every thread gets it.
template <class T>
__device__ inline T block_sum(T value) {
  RINGGRAD_SHARED_ARRAY(T, partial, kThreads);
  partial[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      partial[threadIdx.x] += partial[threadIdx.x + half];
    }
    __syncthreads();
  }
  const T sum = partial[0];
  __syncthreads();
  return sum;
}

}  // namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE
