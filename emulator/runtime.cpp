// The functions of the runtime API, over memory.h, streams.h and scheduler.h.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cuda_runtime.h"
#include "memory.h"
#include "scheduler.h"
#include "streams.h"

namespace emulator {

struct StreamHandle {
  std::shared_ptr<StreamState> state;
};
struct EventHandle {
  Mark latest;  // record
};

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

thread_local int current_device = 0;

std::shared_ptr<StreamState> state_of(cudaStream_t stream) {
  return stream == nullptr ? nullptr : stream->state;
}
int device_of(cudaStream_t stream) {
  return stream == nullptr ? current_device : device_of(*stream->state);
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
  if (device < 0 || device >= machine().devices) {
    return cudaErrorInvalidDevice;
  }
  current_device = device;
  return cudaSuccess;
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
  *memory = allocate_on_device(current_device, bytes, machine().profile->memory);
  return *memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  *memory = allocate_pinned(bytes);
  return *memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}

// Both wait for what may still use the memory, as CUDA's do.
cudaError_t cudaFree(void* memory) {
  run_everything();
  return memory == nullptr || free_on_device(memory) ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaFreeHost(void* memory) {
  run_everything();
  return memory == nullptr || free_pinned(memory) ? cudaSuccess : cudaErrorInvalidValue;
}

// Pinned memory is read and written when the copy's turn comes. Pageable memory, as in CUDA, is
// read before the call returns, and written before it returns.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (bytes == 0) {
    return cudaSuccess;
  }
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  if (is_on_device(from, bytes) != from_device || is_on_device(to, bytes) != to_device) {
    return cudaErrorInvalidValue;
  }
  if (!from_device && !is_pinned(from, bytes)) {
    const auto* begin = static_cast<const char*>(from);
    auto held = std::make_shared<std::vector<char>>(begin, begin + bytes);
    put(state_of(stream), [=] { std::memcpy(to, held->data(), bytes); });
  } else {
    put(state_of(stream), [=] { std::memcpy(to, from, bytes); });
  }
  if (!to_device && !is_pinned(to, bytes)) {
    return cudaStreamSynchronize(stream);
  }
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) {
    return cudaSuccess;
  }
  if (!is_on_device(memory, bytes)) {
    return cudaErrorInvalidValue;
  }
  put(state_of(stream), [=] { std::memset(memory, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = std::make_unique<StreamHandle>(StreamHandle{make_stream(current_device)}).release();
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  cudaStreamSynchronize(stream);
  const std::unique_ptr<StreamHandle> owned(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream == nullptr) {
    run_everything();
  } else {
    run_until(mark_of(stream->state));
  }
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  put_wait(state_of(stream), event->latest);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = std::make_unique<EventHandle>().release();
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::unique_ptr<EventHandle> owned(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->latest = mark_of(state_of(stream));
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  run_until(event->latest);
  return cudaSuccess;
}

void check_arguments(const void* arguments, std::size_t bytes, cudaStream_t stream, Site site) {
  const int device = device_of(stream);
  const std::string unusable = unusable_argument(arguments, bytes, device);
  if (!unusable.empty()) {
    const char* slash = std::strrchr(site.file, '/');
    report("the kernel launched at " + std::string(slash != nullptr ? slash + 1 : site.file) + ":" +
           std::to_string(site.line) + " on device " + std::to_string(device) + " is given " +
           unusable);
  }
}

void launch(dim3 grid, dim3 block, cudaStream_t stream, std::function<void()> kernel, Site site) {
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
  put(state_of(stream), [=, kernel = std::move(kernel)] { run_grid({grid, block, kernel, site}); });
}

}  // namespace emulator
