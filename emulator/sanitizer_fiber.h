// Tells AddressSanitizer and ThreadSanitizer when a host thread changes fibers; does nothing in
// other builds. Source: sanitizer/common_interface_defs.h and sanitizer/tsan_interface.h of
// compiler-rt.
#pragma once

#include <cstddef>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMULATOR_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define EMULATOR_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define EMULATOR_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define EMULATOR_TSAN 1
#endif

#ifdef EMULATOR_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef EMULATOR_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace emulator {

class SanitizerFiber {
 public:
  // A fiber that starts on the given stack.
  void create([[maybe_unused]] void* stack, [[maybe_unused]] std::size_t bytes) {
#ifdef EMULATOR_ASAN
    bottom_ = stack;
    bytes_ = bytes;
#endif
#ifdef EMULATOR_TSAN
    fiber_ = __tsan_create_fiber(0);
#endif
  }
  // Runs `construct`, within which Boost enters the new fiber's first function and comes back: the
  // frames left open there are this fiber's, not its maker's.
  template <class Construct>
  void while_constructing(Construct construct) {
#ifdef EMULATOR_TSAN
    void* const maker = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber_, 0);
#endif
    construct();
#ifdef EMULATOR_TSAN
    __tsan_switch_to_fiber(maker, 0);
#endif
  }
  // The stack that is running now.
  void adopt_running() {
#ifdef EMULATOR_TSAN
    fiber_ = __tsan_get_current_fiber();
#endif
  }
  void destroy() {
#ifdef EMULATOR_TSAN
    __tsan_destroy_fiber(fiber_);
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
    // A finishing fiber still returns from the functions on its own stack; were they taken for
    // returns of `next`, its call stack would run empty. arrived() makes the switch then.
    if (!finishing) {
      __tsan_switch_to_fiber(next.fiber_, 0);
    }
#endif
  }
  // First thing on this fiber after a switch to it.
  void arrived() {
#ifdef EMULATOR_ASAN
    __sanitizer_finish_switch_fiber(fake_stack_, &came_from_->bottom_, &came_from_->bytes_);
#endif
#ifdef EMULATOR_TSAN
    if (__tsan_get_current_fiber() != fiber_) {
      __tsan_switch_to_fiber(fiber_, 0);
    }
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
  void* fiber_ = nullptr;
#endif
};

}  // namespace emulator
