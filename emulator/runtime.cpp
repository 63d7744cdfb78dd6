// The runtime API on the CPU. Work is done at call time: the most prompt behaviour that CUDA
// allows.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cuda_runtime.h"
#include "scheduler.h"

namespace emulator {

struct StreamState {};
struct EventState {};

namespace {

struct Profile {
  const char* name;
  const char* product;
  std::size_t memory;
  int major, minor;
  int multiprocessors;
};

// Figures: NVIDIA's data sheets; K80 is one of the board's two GPUs.
constexpr Profile kProfiles[] = {
    {"k80", "Tesla K80", std::size_t{12} << 30, 3, 7, 13},
    {"v100", "Tesla V100", std::size_t{16} << 30, 7, 0, 80},
    {"h200", "H200", std::size_t{141} << 30, 9, 0, 132},
};

struct Machine {
  const Profile* profile = &kProfiles[2];
  int devices = 1;
};

Machine& machine() {
  static Machine the_machine;
  return the_machine;
}

thread_local cudaError_t last_error = cudaSuccess;

cudaError_t allocate(void** memory, std::size_t bytes) {
  constexpr std::size_t kAlignment = 256;
  *memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (*memory == nullptr) {
    return cudaErrorMemoryAllocation;
  }
  std::memset(*memory, 0xff, bytes);  // fresh memory reads as NaN
  return cudaSuccess;
}

}  // namespace

bool set_profile(const char* text) {
  std::string name = text;
  int devices = 1;
  const std::size_t x = name.rfind('x');
  if (x != std::string::npos && x + 1 < name.size() &&
      name.find_first_not_of("0123456789", x + 1) == std::string::npos) {
    devices = std::atoi(name.c_str() + x + 1);
    name.resize(x);
  }
  for (const Profile& profile : kProfiles) {
    if (name == profile.name && devices >= 1 && devices <= 64) {
      machine() = {&profile, devices};
      return true;
    }
  }
  return false;
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
  }
  return "unknown error";
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = machine().devices;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  return device >= 0 && device < machine().devices ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= machine().devices) {
    return cudaErrorInvalidDevice;
  }
  const Profile& profile = *machine().profile;
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "%s (emulated)", profile.product);
  properties->totalGlobalMem = profile.memory;
  properties->sharedMemPerBlock = std::size_t{48} << 10;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
  properties->maxThreadsDim[2] = 64;
  properties->maxGridSize[0] = 0x7fffffff;
  properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
  properties->major = profile.major;
  properties->minor = profile.minor;
  properties->multiProcessorCount = profile.multiprocessors;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return allocate(memory, bytes);
}
cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  return allocate(memory, bytes);
}

cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  return cudaFree(memory);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t) {
  if (bytes > 0) {
    std::memcpy(to, from, bytes);
  }
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t) {
  if (bytes > 0) {
    std::memset(memory, value, bytes);
  }
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new StreamState;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new EventState;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
  return cudaSuccess;
}

void launch(dim3 grid, dim3 block, cudaStream_t, std::function<void()> kernel, Site site) {
  cudaDeviceProp limits;
  cudaGetDeviceProperties(&limits, 0);
  const unsigned grids[3] = {grid.x, grid.y, grid.z};
  const unsigned blocks[3] = {block.x, block.y, block.z};
  bool valid = std::size_t{block.x} * block.y * block.z <=
               static_cast<std::size_t>(limits.maxThreadsPerBlock);
  for (int axis = 0; axis < 3; ++axis) {
    valid = valid && grids[axis] >= 1 && blocks[axis] >= 1 &&
            grids[axis] <= static_cast<unsigned>(limits.maxGridSize[axis]) &&
            blocks[axis] <= static_cast<unsigned>(limits.maxThreadsDim[axis]);
  }
  if (!valid) {
    last_error = cudaErrorInvalidConfiguration;
    return;
  }
  run_grid({grid, block, kernel, site});
}

}  // namespace emulator
