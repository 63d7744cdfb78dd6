// Tests of kernels: each runs on every backend that is built, against the reference.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backends.h"
#include "kernels/kernels.h"
#include "tests/support/compare.h"
#include "tests/support/random_data.h"

namespace ringgrad::test {

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RINGGRAD_THREAD_SANITIZER
#endif
#if __has_feature(address_sanitizer)
#define RINGGRAD_ADDRESS_SANITIZER
#endif
#endif
// Under ThreadSanitizer a test checks each access of each thread of a kernel, and numbers only in
// passing: few shapes are enough then, and some thousand threads.
#ifdef RINGGRAD_THREAD_SANITIZER
constexpr bool kRaceChecked = true;
#else
constexpr bool kRaceChecked = false;
#endif
// Long runs of the same kernels find no more accesses outside of arrays than short ones.
#ifdef RINGGRAD_ADDRESS_SANITIZER
constexpr bool kAccessChecked = true;
#else
constexpr bool kAccessChecked = false;
#endif

// Device memory with guard bytes on both sides, which are checked when it goes.
template <class T>
class DeviceArray {
 public:
  DeviceArray(Context& context, const std::vector<T>& values)
      : context_(context), count_(values.size()), bytes_(kGuard + count_ * sizeof(T) + kGuard) {
    memory_ = static_cast<char*>(context.arena().allocate(bytes_, stream()));
    std::string image(bytes_, kPattern);
    if (count_ > 0) {
      std::memcpy(image.data() + kGuard, values.data(), count_ * sizeof(T));
    }
    copy(memory_, image.data(), bytes_, CopyKind::host_to_device);
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() {
    std::string image(bytes_, 0);
    copy(image.data(), memory_, bytes_, CopyKind::device_to_host);
    const std::string guard(kGuard, kPattern);
    EXPECT_EQ(image.compare(0, kGuard, guard), 0) << "written before the array";
    EXPECT_EQ(image.compare(bytes_ - kGuard, kGuard, guard), 0) << "written behind the array";
    context_.arena().release(memory_, bytes_, stream());
  }

  T* get() { return reinterpret_cast<T*>(memory_ + kGuard); }
  std::vector<T> host() {
    std::vector<T> values(count_);
    copy(values.data(), memory_ + kGuard, count_ * sizeof(T), CopyKind::device_to_host);
    return values;
  }

 private:
  static constexpr std::size_t kGuard = 256;
  static constexpr char kPattern = 0x5a;
  StreamHandle stream() { return context_.compute_stream().handle(); }
  void copy(void* to, const void* from, std::size_t bytes, CopyKind kind) {
    context_.device().copy(to, from, bytes, kind, stream());
    context_.compute_stream().synchronize();
  }
  Context& context_;
  std::size_t count_, bytes_;
  char* memory_;
};

// An output that must be written whole: starts as NaN (or 0xff bytes).
template <class T>
std::vector<T> unwritten(std::int64_t n) {
  std::vector<T> values(static_cast<std::size_t>(n));
  if (n > 0) {
    std::memset(static_cast<void*>(values.data()), 0xff, values.size() * sizeof(T));
  }
  return values;
}

class BackendTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    try {
      context_ = kernels::open_context(GetParam(), 2);
    } catch (const Error& error) {
      if (GetParam() != "cuda") {
        throw;
      }
      GTEST_SKIP() << error.what();
    }
    reference_ = kernels::open_context("reference", 1);
  }
  // Whether the backend under test offers the operation; where it does not, the test is to skip.
  template <class Args>
  bool offers() const {
    return context_->operations().has<Args>();
  }

  // As kernels::run; by the variant `variant_` where this is the backend under test and has it.
  template <class Args>
  void run_variant(Context& context, const Args& args) const {
    for (const auto& variant : context.operations().variants<Args>()) {
      if (&context == context_.get() && variant.name == variant_ && variant.can_run(args)) {
        return variant.function(context, args);
      }
    }
    kernels::run(context, args);
  }
  // Calls check() with each variant of the operation, and those of the same names of others, in
  // turn.
  template <class Args, class Check>
  void for_each_variant(Check&& check) {
    for (const auto& variant : context_->operations().variants<Args>()) {
      SCOPED_TRACE(concat("variant ", variant.name));
      variant_ = variant.name;
      check();
    }
    variant_.clear();
  }

  std::unique_ptr<Context> context_;
  std::unique_ptr<Context> reference_;
  std::string variant_;  // empty: the backend chooses
};

// Skips, visibly, on a backend that does not offer the operation yet.
#define RINGGRAD_NEEDS(Args)                                                         \
  if (!offers<Args>()) {                                                             \
    GTEST_SKIP() << "backend " << GetParam() << " has no " << Args::kName << " yet"; \
  }

#define RINGGRAD_ON_ALL_BACKENDS(Suite)                                             \
  INSTANTIATE_TEST_SUITE_P(Backends, Suite,                                         \
                           testing::Values("cpu", "reference", "emulated", "cuda"), \
                           [](const auto& param) { return param.param; })

}  // namespace ringgrad::test
