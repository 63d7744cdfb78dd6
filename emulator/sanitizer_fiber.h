// Tells AddressSanitizer and ThreadSanitizer when a host thread changes fibers, and what orders the
// threads of a grid; does nothing in other builds. Source: sanitizer/common_interface_defs.h and
// sanitizer/tsan_interface.h of compiler-rt.
//
// For ThreadSanitizer each thread of each block is a thread of its own, new for each block, so that
// nothing orders two of them but what CUDA says does: barriers, and atomics with fences around
// them. The scheduler itself is compiled without the sanitizer (CMakeLists.txt), or its bookkeeping
// would.
//
// An atomic alone orders nothing. A fence before one makes what was written before the fence
// visible to who reads that atomic and has a fence behind it. Two helpers stand in for the thread:
// what the fence saw is handed to the first, which hands it to the atomic; the second takes what
// the atomic holds, until a fence takes it over.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMULATOR_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define EMULATOR_ASAN 1
#endif

#ifdef EMULATOR_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef EMULATOR_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace emulator {

#ifdef EMULATOR_TSAN
// A thread of ThreadSanitizer's that is made when it is first needed.
class SanitizerThread {
 public:
  void* get() {
    thread_ = thread_ != nullptr ? thread_ : __tsan_create_fiber(0);
    return thread_;
  }
  void name(const std::string& text) { __tsan_set_fiber_name(get(), text.c_str()); }
  void adopt(void* thread) { thread_ = thread; }
  void* give() { return std::exchange(thread_, nullptr); }
  // Without an order between who leaves and who goes on.
  void switch_to() { __tsan_switch_to_fiber(get(), __tsan_switch_to_fiber_no_sync); }

 private:
  void* thread_ = nullptr;
};
#endif

// Threads of ThreadSanitizer's whose blocks are done. It gives their numbers to new threads, and
// takes what the old and the new one did for one thread's work: so they are kept for a while. The
// process may have some 8000.
class RetiredThreads {
 public:
#ifdef EMULATOR_TSAN
  ~RetiredThreads() {
    keep(0);
  }
  void add(SanitizerThread& thread) {
    if (void* handle = thread.give()) {
      threads_.push_back(handle);
    }
  }
  void keep(std::size_t at_most) {
    for (; threads_.size() > at_most; threads_.pop_front()) {
      __tsan_destroy_fiber(threads_.front());
    }
  }

 private:
  std::deque<void*> threads_;
#endif
};

class SanitizerFiber {
 public:
  // A fiber that starts on the given stack.
  void create([[maybe_unused]] void* stack, [[maybe_unused]] std::size_t bytes) {
#ifdef EMULATOR_ASAN
    bottom_ = stack;
    bytes_ = bytes;
#endif
  }
  // The stack that is running now.
  void adopt_running() {
#ifdef EMULATOR_TSAN
    thread_.adopt(__tsan_get_current_fiber());
#endif
  }
  // From here to end_block() the fiber is one thread of one block; name() says which.
  template <class Name>
  void begin_block([[maybe_unused]] Name&& name) {
#ifdef EMULATOR_TSAN
    thread_.name("thread " + name());
    seen_ = std::make_unique<Seen>();
#endif
  }
  void end_block([[maybe_unused]] RetiredThreads& retired) {
#ifdef EMULATOR_TSAN
    constexpr std::size_t kKept = 2500;
    for (SanitizerThread* thread : {&thread_, &releasing_, &acquiring_}) {
      retired.add(*thread);
    }
    retired.keep(kKept);
    fenced_ = false;
    seen_ = nullptr;  // its places forget what they were told
#endif
  }
  // Right before the switch away from this fiber to `next`; `finishing` if this one never runs
  // again.
  void leave_for([[maybe_unused]] SanitizerFiber& next, [[maybe_unused]] bool finishing) {
#ifdef EMULATOR_ASAN
    next.came_from_ = this;
    __sanitizer_start_switch_fiber(finishing ? nullptr : &fake_stack_, next.bottom_, next.bytes_);
#endif
#ifdef EMULATOR_TSAN
    next.thread_.switch_to();
#endif
  }
  // First thing on this fiber after a switch to it.
  void arrived() {
#ifdef EMULATOR_ASAN
    __sanitizer_finish_switch_fiber(fake_stack_, &came_from_->bottom_, &came_from_->bytes_);
#endif
  }

  // What the running thread did before a release comes before what another does after an acquire of
  // the same place.
  static void release([[maybe_unused]] const void* place) {
#ifdef EMULATOR_TSAN
    __tsan_release(const_cast<void*>(place));
#endif
  }
  static void acquire([[maybe_unused]] const void* place) {
#ifdef EMULATOR_TSAN
    __tsan_acquire(const_cast<void*>(place));
#endif
  }

  void fence() {
#ifdef EMULATOR_TSAN
    acquire(&seen_->by_atomics);
    release(&seen_->by_fence);
    fenced_ = true;
    releasing_.get();  // made now: it begins with what its maker knows
#endif
  }
  void before_atomic([[maybe_unused]] const void* place) {
#ifdef EMULATOR_TSAN
    if (fenced_) {
      releasing_.switch_to();
      acquire(&seen_->by_fence);
      release(place);
      thread_.switch_to();
    }
#endif
  }
  void after_atomic([[maybe_unused]] const void* place) {
#ifdef EMULATOR_TSAN
    acquiring_.switch_to();
    acquire(place);
    release(&seen_->by_atomics);
    thread_.switch_to();
#endif
  }

 private:
#ifdef EMULATOR_ASAN
  void* fake_stack_ = nullptr;
  const void* bottom_ = nullptr;
  std::size_t bytes_ = 0;
  SanitizerFiber* came_from_ = nullptr;
#endif
#ifdef EMULATOR_TSAN
  SanitizerThread thread_, releasing_, acquiring_;
  bool fenced_ = false;
  struct Seen {
    char by_fence;    // what the thread had done before its last fence
    char by_atomics;  // what its atomics found since
  };
  std::unique_ptr<Seen> seen_;
#endif
};

}  // namespace emulator
