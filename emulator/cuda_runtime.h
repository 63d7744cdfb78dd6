// A CUDA runtime on the CPU: drop-in for the toolkit's header, so that .cu files compile with the
// host compiler and run where there is no GPU. Names and meanings are those of the CUDA Runtime API
// and the CUDA C++ Programming Guide; what is missing is not used by ringgrad. The functions are
// C++ functions of a namespace of their own: a program may link this and the real runtime side by
// side.
//
// Kernels are started through emulator::launch, which takes the place of <<<>>>; shared arrays are
// declared through emulator::shared_array (kernels/cuda/launch.h hides the difference).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#include "site.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

namespace emulator {

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct alignas(16) float4 {
  float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
};
constexpr unsigned cudaStreamNonBlocking = 1;
constexpr unsigned cudaEventDisableTiming = 2;

struct StreamHandle;
struct EventHandle;
using cudaStream_t = StreamHandle*;
using cudaEvent_t = EventHandle*;

struct cudaDeviceProp {
  char name[256];
  std::size_t totalGlobalMem;
  std::size_t sharedMemPerBlock;
  int warpSize;
  int maxThreadsPerBlock;
  int maxGridSize[3];
  int maxThreadsDim[3];
  int major, minor;
  int multiProcessorCount;
};

const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaMalloc(void** memory, std::size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaMallocHost(void** memory, std::size_t bytes);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);

// The machine that the emulator plays: "k80", "v100", "h200", with "xN" for N devices. False if
// unknown. Takes effect for all threads; call it before the first device is used.
bool set_profile(const char* profile);

// In which order blocks and threads run: "forward", "reverse", "shuffled" or "shuffled:SEED". False
// if it is none of them. Otherwise the environment's RINGGRAD_EMULATOR_ORDER counts.
bool set_order(const char* order);

// Runs kernel() once for each thread of each block. Invalid dimensions set the error that
// cudaGetLastError returns, as CUDA does. `site` is where the program launches it.
void launch(dim3 grid, dim3 block, cudaStream_t stream, std::function<void()> kernel,
            Site site = Site::here());

// Reports memory among a kernel's arguments that it could not use on the stream's device.
void check_arguments(const void* arguments, std::size_t bytes, cudaStream_t stream,
                     Site site = Site::here());

// What the running fiber sees of the launch.
const dim3& current_thread();
const dim3& current_block();
const dim3& current_block_dim();
const dim3& current_grid_dim();

// The block's own array for the declaration that `declaration` identifies: fresh, NaN-filled.
void* shared_array(const void* declaration, std::size_t bytes);

// ---- what threads tell each other. Each is called by all of a block, or by all lanes that the
// mask names, from the same place; anything else is reported.

void __syncthreads(Site site = Site::here());
void __syncwarp(unsigned mask = 0xffffffffU, Site site = Site::here());

unsigned current_lane();
// The value that lane `from_lane` gave; poison where the mask does not name it.
std::uint64_t warp_shuffle(unsigned mask, std::uint64_t value, unsigned from_lane, Site site);
// Of the lanes that the mask names, those whose predicate holds.
unsigned warp_vote(unsigned mask, bool predicate, Site site);

template <class T>
T shuffled(unsigned mask, T value, unsigned from_lane, Site site) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t), "shuffles move up to 8 bytes");
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = warp_shuffle(mask, bits, from_lane, site);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
// Lanes are taken within groups of `width`, a power of two; what would leave its group reads
// itself.
template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32, Site site = Site::here()) {
  const unsigned group = current_lane() & ~(static_cast<unsigned>(width) - 1);
  return shuffled(mask, value, group + static_cast<unsigned>(from) % static_cast<unsigned>(width),
                  site);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, Site site = Site::here()) {
  const unsigned lane = current_lane();
  const unsigned from = lane ^ static_cast<unsigned>(lanes);
  const unsigned end = (lane & ~(static_cast<unsigned>(width) - 1)) + static_cast<unsigned>(width);
  return shuffled(mask, value, from < end ? from : lane, site);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, Site site = Site::here()) {
  const unsigned lane = current_lane();
  const unsigned end = (lane & ~(static_cast<unsigned>(width) - 1)) + static_cast<unsigned>(width);
  return shuffled(mask, value, lane + by < end ? lane + by : lane, site);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, Site site = Site::here()) {
  const unsigned lane = current_lane();
  const unsigned group = lane & ~(static_cast<unsigned>(width) - 1);
  return shuffled(mask, value, lane >= group + by ? lane - by : lane, site);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, Site site = Site::here()) {
  return warp_vote(mask, predicate != 0, site);
}
inline int __any_sync(unsigned mask, int predicate, Site site = Site::here()) {
  return warp_vote(mask, predicate != 0, site) != 0 ? 1 : 0;
}
inline int __all_sync(unsigned mask, int predicate, Site site = Site::here()) {
  return warp_vote(mask, predicate != 0, site) == mask ? 1 : 0;
}

// ---- atomics. They order nothing by themselves: a fence before, and one behind, do.

void __threadfence();
void before_atomic(const void* place);
void after_atomic(const void* place);

template <class T, class Update>
T updated_atomically(T* place, Update update) {
  before_atomic(place);
  T seen = __atomic_load_n(place, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(place, &seen, update(seen), true, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED)) {
  }
  after_atomic(place);
  return seen;
}
inline int atomicAdd(int* place, int value) {
  return updated_atomically(place, [=](int seen) { return seen + value; });
}
inline unsigned atomicAdd(unsigned* place, unsigned value) {
  return updated_atomically(place, [=](unsigned seen) { return seen + value; });
}
inline unsigned long long atomicAdd(unsigned long long* place, unsigned long long value) {
  return updated_atomically(place, [=](unsigned long long seen) { return seen + value; });
}

}  // namespace emulator

using namespace emulator;  // NOLINT: a drop-in header offers its names unqualified

#define threadIdx (::emulator::current_thread())
#define blockIdx (::emulator::current_block())
#define blockDim (::emulator::current_block_dim())
#define gridDim (::emulator::current_grid_dim())
