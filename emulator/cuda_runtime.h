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
#include <functional>

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

struct StreamState;
struct EventState;
using cudaStream_t = StreamState*;
using cudaEvent_t = EventState*;

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

// Runs kernel() once for each thread of each block. Invalid dimensions set the error that
// cudaGetLastError returns, as CUDA does.
void launch(dim3 grid, dim3 block, cudaStream_t stream, const std::function<void()>& kernel);

// What the running fiber sees of the launch.
const dim3& current_thread();
const dim3& current_block();
const dim3& current_block_dim();
const dim3& current_grid_dim();

// The block's own array for the declaration that `site` identifies: fresh, NaN-filled.
void* shared_array(const void* site, std::size_t bytes);

// A barrier of the block. A thread that leaves the kernel while others wait here is reported.
void __syncthreads();

inline int atomicCAS(int* address, int compare, int value) {
  __atomic_compare_exchange_n(address, &compare, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return compare;
}
inline unsigned long long atomicAdd(unsigned long long* address, unsigned long long value) {
  return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}

}  // namespace emulator

using namespace emulator;  // NOLINT: a drop-in header offers its names unqualified

#define threadIdx (::emulator::current_thread())
#define blockIdx (::emulator::current_block())
#define blockDim (::emulator::current_block_dim())
#define gridDim (::emulator::current_grid_dim())
