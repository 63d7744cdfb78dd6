// Memory with an owner: of the device (from a replica's arena), pinned on the host, or foreign
// (memory that somebody else keeps, such as a range that the ranks of one host share).
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "runtime/context.h"

namespace ringgrad {

class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer() {
    if (release_ != nullptr) {
      release_(*this);
    }
  }

  // For work on the compute stream of `context`, which must outlive the buffer.
  static Buffer on_device(Context& context, std::size_t bytes) {
    const StreamHandle stream = context.compute_stream().handle();
    return {&context, context.arena().allocate(bytes, stream), bytes, [](Buffer& b) {
              b.context_->arena().release(b.data_, b.bytes_, b.context_->compute_stream().handle());
            }};
  }
  static Buffer pinned(Context& context, std::size_t bytes) {
    return {&context, context.device().allocate_pinned(bytes), bytes,
            [](Buffer& b) { b.context_->device().deallocate_pinned(b.data_, b.bytes_); }};
  }
  // `owner` is kept for as long as the buffer lives.
  static Buffer foreign(void* data, std::size_t bytes, std::shared_ptr<void> owner) {
    Buffer buffer(nullptr, data, bytes, nullptr);
    buffer.owner_ = std::move(owner);
    return buffer;
  }

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  Buffer(Context* context, void* data, std::size_t bytes, void (*release)(Buffer&))
      : context_(context), data_(data), bytes_(bytes), release_(release) {}
  void swap(Buffer& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(release_, other.release_);
    std::swap(owner_, other.owner_);
  }

  Context* context_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  void (*release_)(Buffer&) = nullptr;
  std::shared_ptr<void> owner_;
};

}  // namespace ringgrad
