#include "runtime/cuda/device.h"

#include "runtime/cuda/check.h"

namespace ringgrad::RINGGRAD_CUDA_NAMESPACE {
namespace {

cudaStream_t stream_of(StreamHandle handle) {
  return static_cast<cudaStream_t>(handle);
}
cudaEvent_t event_of(EventHandle handle) {
  return static_cast<cudaEvent_t>(handle);
}

cudaMemcpyKind kind_of(CopyKind kind) {
  switch (kind) {
    case CopyKind::host_to_host:
      return cudaMemcpyHostToHost;
    case CopyKind::host_to_device:
      return cudaMemcpyHostToDevice;
    case CopyKind::device_to_host:
      return cudaMemcpyDeviceToHost;
    case CopyKind::device_to_device:
      return cudaMemcpyDeviceToDevice;
  }
  return cudaMemcpyHostToHost;
}

class CudaDevice : public DeviceTable {
 public:
  explicit CudaDevice(int index) : index_(index) {
    RINGGRAD_CHECK_CUDA(cudaGetDeviceProperties(&properties_, index));
    make_current();
  }

  std::string name() const override { return concat(kBackend, ":", index_); }
  std::string description() const override {
    return concat(properties_.name, ", ", properties_.totalGlobalMem >> 20,
                  " MiB, compute capability ", properties_.major, ".", properties_.minor, ", ",
                  properties_.multiProcessorCount, " multiprocessors");
  }
  bool host_accessible() const override { return false; }

  void* allocate(std::size_t bytes) override {
    void* memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, bytes);
    RINGGRAD_CHECK(error == cudaSuccess, "out of memory on ", name(), ": ", bytes,
                   " bytes were asked for (", cudaGetErrorString(error), ")");
    return memory;
  }
  void deallocate(void* memory, std::size_t) noexcept override { cudaFree(memory); }
  void* allocate_pinned(std::size_t bytes) override {
    void* memory = nullptr;
    RINGGRAD_CHECK_CUDA(cudaMallocHost(&memory, bytes));
    return memory;
  }
  void deallocate_pinned(void* memory, std::size_t) noexcept override { cudaFreeHost(memory); }

  StreamHandle create_stream() override {
    cudaStream_t stream = nullptr;
    RINGGRAD_CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
  }
  void destroy_stream(StreamHandle stream) noexcept override {
    cudaStreamDestroy(stream_of(stream));
  }
  void synchronize(StreamHandle stream) override {
    RINGGRAD_CHECK_CUDA(cudaStreamSynchronize(stream_of(stream)));
  }

  EventHandle create_event() override {
    cudaEvent_t event = nullptr;
    RINGGRAD_CHECK_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
  }
  void destroy_event(EventHandle event) noexcept override { cudaEventDestroy(event_of(event)); }
  void record(EventHandle event, StreamHandle stream) override {
    RINGGRAD_CHECK_CUDA(cudaEventRecord(event_of(event), stream_of(stream)));
  }
  void wait(StreamHandle stream, EventHandle event) override {
    RINGGRAD_CHECK_CUDA(cudaStreamWaitEvent(stream_of(stream), event_of(event), 0));
  }
  void synchronize_event(EventHandle event) override {
    RINGGRAD_CHECK_CUDA(cudaEventSynchronize(event_of(event)));
  }

  void copy(void* to, const void* from, std::size_t bytes, CopyKind kind,
            StreamHandle stream) override {
    RINGGRAD_CHECK_CUDA(cudaMemcpyAsync(to, from, bytes, kind_of(kind), stream_of(stream)));
  }
  void fill_zero(void* memory, std::size_t bytes, StreamHandle stream) override {
    RINGGRAD_CHECK_CUDA(cudaMemsetAsync(memory, 0, bytes, stream_of(stream)));
  }
  void make_current() override { RINGGRAD_CHECK_CUDA(cudaSetDevice(index_)); }

 private:
#ifdef RINGGRAD_EMULATED
  static constexpr const char* kBackend = "emulated";
#else
  static constexpr const char* kBackend = "cuda";
#endif
  int index_;
  cudaDeviceProp properties_;
};

}  // namespace

int device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

std::unique_ptr<DeviceTable> make_device(int index) {
  const int count = device_count();
  RINGGRAD_CHECK(index >= 0 && index < count, "there is no GPU ", index, ": ", count,
                 count == 1 ? " is" : " are", " visible to this process");
  return std::make_unique<CudaDevice>(index);
}

#ifdef RINGGRAD_EMULATED
void set_profile(const std::string& profile) {
  RINGGRAD_CHECK(::emulator::set_profile(profile.empty() ? "h200" : profile.c_str()),
                 "device emulated:", profile,
                 ": unknown profile; expected k80, v100 or h200, with xN for N devices (k80x4)");
}

void set_order(const std::string& order) {
  RINGGRAD_CHECK(::emulator::set_order(order.c_str()), "order ", order,
                 ": expected forward, reverse, shuffled or shuffled:SEED");
}
#endif

}  // namespace ringgrad::RINGGRAD_CUDA_NAMESPACE
