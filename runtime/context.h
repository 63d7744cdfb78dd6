// A replica: one device with its streams, arena, caches and thread budget. Passed explicitly
// everywhere; two replicas share nothing mutable. A Context is driven by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <typeindex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/arena.h"
#include "runtime/device.h"

namespace ringgrad {

namespace kernels {
class OperationTable;  // filled by the backend; runtime only hands it on
}

// What a kernel found wrong in its data. It lies in device memory, is written without stopping the
// stream, and is read when the host reads results anyway (Context::check_status).
struct StatusWord {
  std::int32_t code = 0;  // 0: nothing; 1: label out of range
  std::int32_t reserved = 0;
  std::int64_t index = 0;  // the first offending sample
  std::int64_t value = 0;  // what was found there
};

class Context {
 public:
  // `threads` is the budget of this replica on the host.
  Context(std::unique_ptr<DeviceTable> device, const kernels::OperationTable& operations,
          int threads);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  DeviceTable& device() const { return *device_; }
  const kernels::OperationTable& operations() const { return operations_; }
  int threads() const { return threads_; }

  Stream& compute_stream() { return compute_stream_; }
  Stream& copy_stream() { return copy_stream_; }
  Arena& arena() { return arena_; }

  // Device memory; kernels write it, check_status reads it, stops for it, and throws Error if it is
  // set.
  StatusWord* status_word() const { return status_word_; }
  void check_status();

  // The one T of this replica, default-made at first use: state of a layer above (autograd, say).
  template <class T>
  T& state() {
    return cached<T>({}, [] { return std::make_unique<T>(); });
  }

  // The T that make() built for this key (shapes, strides, flags), built at first use: primitives,
  // workspaces, chosen variants. make returns std::unique_ptr<T>.
  template <class T, class Make>
  T& cached(const std::vector<std::int64_t>& key, Make&& make) {
    std::shared_ptr<void>& slot = cache_[{std::type_index(typeid(T)), key}];
    if (!slot) {
      slot = std::shared_ptr<T>(std::forward<Make>(make)());
    }
    return *static_cast<T*>(slot.get());
  }

 private:
  using CacheKey = std::pair<std::type_index, std::vector<std::int64_t>>;
  struct CacheHash {
    std::size_t operator()(const CacheKey& key) const;
  };

  std::unique_ptr<DeviceTable> device_;
  const kernels::OperationTable& operations_;
  int threads_;
  Stream compute_stream_;
  Stream copy_stream_;
  Arena arena_;
  StatusWord* status_word_;
  std::unordered_map<CacheKey, std::shared_ptr<void>, CacheHash> cache_;
};

}  // namespace ringgrad
