#include "runtime/host_device.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "runtime/cpu_features.h"
#include "runtime/error.h"

namespace ringgrad {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

class HostDevice : public DeviceTable {
 public:
  HostDevice(std::string name, bool poison) : name_(std::move(name)), poison_(poison) {}

  std::string name() const override { return name_; }
  std::string description() const override { return cpu_features().description; }
  bool host_accessible() const override { return true; }

  void* allocate(std::size_t bytes) override {
    const bool huge = bytes >= 2 * kHugePage;
    const std::size_t alignment = huge ? kHugePage : kAlignment;
    const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void* memory = std::aligned_alloc(alignment, rounded);
    RINGGRAD_CHECK(memory != nullptr, "out of memory on ", name_, ": ", bytes,
                   " bytes were asked for");
    if (huge) {
      // Only a wish: kernels without transparent huge pages refuse it and nothing is lost.
      (void)madvise(memory, rounded, MADV_HUGEPAGE);
    }
    if (poison_) {
      std::memset(memory, 0xff, bytes);
    }
    return memory;
  }
  void deallocate(void* memory, std::size_t) noexcept override { std::free(memory); }
  void* allocate_pinned(std::size_t bytes) override { return allocate(bytes); }
  void deallocate_pinned(void* memory, std::size_t bytes) noexcept override {
    deallocate(memory, bytes);
  }

  StreamHandle create_stream() override { return this; }
  void destroy_stream(StreamHandle) noexcept override {}
  void synchronize(StreamHandle) override {}
  EventHandle create_event() override { return this; }
  void destroy_event(EventHandle) noexcept override {}
  void record(EventHandle, StreamHandle) override {}
  void wait(StreamHandle, EventHandle) override {}
  void synchronize_event(EventHandle) override {}

  void copy(void* to, const void* from, std::size_t bytes, CopyKind, StreamHandle) override {
    if (bytes > 0) {
      std::memcpy(to, from, bytes);
    }
  }
  void fill_zero(void* memory, std::size_t bytes, StreamHandle) override {
    if (bytes > 0) {
      std::memset(memory, 0, bytes);
    }
  }
  void make_current() override {}

 private:
  std::string name_;
  bool poison_;
};

}  // namespace

std::unique_ptr<DeviceTable> make_host_device(std::string name, bool poison) {
  return std::make_unique<HostDevice>(std::move(name), poison);
}

}  // namespace ringgrad
