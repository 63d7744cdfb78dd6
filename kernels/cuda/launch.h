// Included by .cu files only: how kernels are started and how shared arrays are declared, the same
// under nvcc and over the emulator.
#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>

#include "kernels/kernels.h"
#include "runtime/buffer.h"
#include "runtime/cuda/check.h"

#ifdef RINGGRAD_EMULATED
#define RINGGRAD_SHARED_ARRAY(Type, name, count) \
  static const char name##_site = 0;             \
  Type(&name)[count] =                           \
      *static_cast<Type(*)[count]>(::emulator::shared_array(&name##_site, sizeof(Type) * (count)))
#define RINGGRAD_UNROLL
#else
#define RINGGRAD_SHARED_ARRAY(Type, name, count) __shared__ Type name[count]
#define RINGGRAD_UNROLL _Pragma("unroll")
#endif

namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE {

// The replica on whose compute stream a kernel is started, and where that is asked for.
struct LaunchOn {
#ifdef RINGGRAD_EMULATED
  LaunchOn(Context& context_, ::emulator::Site site_ = ::emulator::Site::here())
      : context(context_), site(site_) {}
  Context& context;
  ::emulator::Site site;
#else
  LaunchOn(Context& context_) : context(context_) {}
  Context& context;
#endif
};

// Starts kernel(args...) and checks that it could be started. The arguments are converted to the
// kernel's own parameter types.
template <class... Parameters, class... Args>
void launch(const LaunchOn& on, dim3 grid, dim3 block, void (*kernel)(Parameters...),
            const Args&... args) {
  const auto stream = static_cast<cudaStream_t>(on.context.compute_stream().handle());
  RINGGRAD_CHECK(stream != nullptr, "a kernel on the null stream would wait for all others");
#ifdef RINGGRAD_EMULATED
  const std::tuple<Parameters...> values(static_cast<Parameters>(args)...);
  ::emulator::launch(
      grid, block, stream, [=] { std::apply(kernel, values); }, on.site);
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

// One float, or four neighbours in one access at a multiple of 16 bytes: what a thread takes at
// once.
template <int width>
struct Lane {
  static_assert(width == 1 || width == 4);
  float value[width];
};
template <int width>
__device__ inline Lane<width> load(const float* at) {
  if constexpr (width == 4) {
    const float4 quad = *reinterpret_cast<const float4*>(at);
    return {{quad.x, quad.y, quad.z, quad.w}};
  } else {
    return {{*at}};
  }
}
template <int width>
__device__ inline void store(float* at, const Lane<width>& lane) {
  if constexpr (width == 4) {
    *reinterpret_cast<float4*>(at) =
        make_float4(lane.value[0], lane.value[1], lane.value[2], lane.value[3]);
  } else {
    *at = lane.value[0];
  }
}

// Whether rows of `count` elements from `data` on can be taken four at a time.
inline bool in_quads(const void* data, Index count) {
  return reinterpret_cast<std::uintptr_t>(data) % sizeof(float4) == 0 && count % 4 == 0;
}

// One value per thread of a block of kThreads, combined in a fixed order; every thread gets the
// result.
template <class T, class Combine>
__device__ inline T block_combined(T value, Combine combine) {
  RINGGRAD_SHARED_ARRAY(T, partial, kThreads);
  partial[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      partial[threadIdx.x] = combine(partial[threadIdx.x], partial[threadIdx.x + half]);
    }
    __syncthreads();
  }
  const T result = partial[0];
  __syncthreads();
  return result;
}
template <class T>
struct Sum {
  __device__ T operator()(T a, T b) const { return a + b; }
};
template <class T>
struct Minimum {
  __device__ T operator()(T a, T b) const { return b < a ? b : a; }
};
template <class T>
__device__ inline T block_sum(T value) {
  return block_combined(value, Sum<T>());
}

// Over the 32 lanes of a whole warp, in a fixed order; every lane gets it.
constexpr unsigned kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffU;
template <class T>
__device__ inline T warp_sum(T value) {
  for (int apart = 16; apart > 0; apart /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, apart);
  }
  return value;
}
// NaN where any value is NaN.
__device__ inline float warp_maximum(float value) {
  for (int apart = 16; apart > 0; apart /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, value, apart);
    value = other > value || other != other ? other : value;
  }
  return value;
}

}  // namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE
