// Streams and memory: what CUDA leaves open is as late and as strict as it may be.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <vector>

namespace {

constexpr std::size_t kCount = 1000;
constexpr std::size_t kBytes = kCount * sizeof(float);

class EmulatorStreams : public testing::Test {
 protected:
  EmulatorStreams() {
    set_profile("h200x2");
    cudaSetDevice(0);
    for (cudaStream_t* stream : {&first_, &second_}) {
      cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking);
    }
    cudaEventCreateWithFlags(&event_, cudaEventDisableTiming);
    cudaMalloc(reinterpret_cast<void**>(&device_), kBytes);
    cudaMallocHost(reinterpret_cast<void**>(&pinned_), kBytes);
  }
  ~EmulatorStreams() override {
    cudaStreamDestroy(first_);
    cudaStreamDestroy(second_);
    cudaEventDestroy(event_);
    cudaFree(device_);
    cudaFreeHost(pinned_);
    set_order("forward");
    set_profile("h200");
  }
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  void write(float value, cudaStream_t stream) const {
    launch(dim3(4), dim3(256), stream, [=, to = device_] {
      const std::size_t i = blockIdx.x * 256 + threadIdx.x;
      if (i < kCount) {
        to[i] = value;
      }
    });
  }
  // The first element, as it is when `stream` gets to it.
  float read(cudaStream_t stream) const {
    float value = 0;
    cudaMemcpyAsync(&value, device_, sizeof value, cudaMemcpyDeviceToHost, stream);
    return value;
  }

  cudaStream_t first_ = nullptr, second_ = nullptr;
  cudaEvent_t event_ = nullptr;
  float* device_ = nullptr;
  float* pinned_ = nullptr;
};

TEST_F(EmulatorStreams, FreshMemoryReadsAsNan) {
  EXPECT_TRUE(std::isnan(read(first_)));
}

TEST_F(EmulatorStreams, PinnedMemoryIsReadWhenTheCopyRuns) {
  pinned_[0] = 1;
  cudaMemcpyAsync(device_, pinned_, kBytes, cudaMemcpyHostToDevice, first_);
  pinned_[0] = 2;  // too early
  EXPECT_EQ(read(first_), 2);
}

TEST_F(EmulatorStreams, PageableMemoryIsReadAtTheCall) {
  std::vector<float> pageable(kCount, 1);
  cudaMemcpyAsync(device_, pageable.data(), kBytes, cudaMemcpyHostToDevice, first_);
  pageable[0] = 2;
  EXPECT_EQ(read(first_), 1);
}

TEST_F(EmulatorStreams, WithoutAWaitTheOtherStreamHasNotRun) {
  write(1, first_);
  EXPECT_TRUE(std::isnan(read(second_)));
}

TEST_F(EmulatorStreams, AnEventOrdersStreams) {
  write(1, first_);
  cudaEventRecord(event_, first_);
  write(2, first_);
  cudaStreamWaitEvent(second_, event_, 0);
  cudaEventRecord(event_, first_);  // too late for the wait above
  EXPECT_EQ(read(second_), 1);
  cudaEventSynchronize(event_);
  EXPECT_EQ(read(second_), 2);
}

TEST_F(EmulatorStreams, AnEventThatWasNeverRecordedHoldsNobodyUp) {
  cudaStreamWaitEvent(second_, event_, 0);
  cudaEventSynchronize(event_);
  EXPECT_TRUE(std::isnan(read(second_)));
}

TEST_F(EmulatorStreams, TheNullStreamWaitsForAllOthers) {
  write(3, first_);
  EXPECT_EQ(read(nullptr), 3);
}

TEST_F(EmulatorStreams, ALostWaitShowsUnderSomeSeeds) {
  int stale = 0;
  for (int seed = 0; seed < 40; ++seed) {
    set_order(("shuffled:" + std::to_string(seed)).c_str());
    write(0, first_);
    cudaStreamSynchronize(first_);
    write(1, first_);
    stale += read(second_) == 0 ? 1 : 0;
    write(2, first_);
    cudaEventRecord(event_, first_);
    cudaStreamWaitEvent(second_, event_, 0);
    EXPECT_EQ(read(second_), 2) << "seed " << seed;
  }
  EXPECT_GT(stale, 0);
  EXPECT_LT(stale, 40);
}

TEST_F(EmulatorStreams, CopiesOfTheWrongKindOrSizeAreRefused) {
  float host = 0;
  EXPECT_EQ(cudaMemcpyAsync(device_, &host, 4, cudaMemcpyDeviceToDevice, first_),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(&host, &host, 4, cudaMemcpyDeviceToHost, first_),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(device_, pinned_, kBytes + 1, cudaMemcpyHostToDevice, first_),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(device_ + 1, 0, kBytes, first_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(pinned_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(device_), cudaErrorInvalidValue);
}

TEST_F(EmulatorStreams, MemoryEndsWhereTheDevicesDoes) {
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, std::size_t{200} << 30), cudaErrorMemoryAllocation);
  EXPECT_EQ(memory, nullptr);
}

using EmulatorStreamsDeathTest = EmulatorStreams;

TEST_F(EmulatorStreamsDeathTest, TheHostTouchesDeviceMemory) {
  EXPECT_DEATH(device_[3] = 1, "the host touched device memory at 0x.*; copy it to the host first");
}

TEST_F(EmulatorStreamsDeathTest, AKernelIsGivenWhatItCannotUse) {
  std::vector<float> pageable(10);
  const float* arguments[] = {pageable.data()};
  EXPECT_DEATH(
      check_arguments(arguments, sizeof arguments, first_),
      "launched at streams_test.cpp:[0-9]+ on device 0 is given pageable memory of the host");
  float* others = nullptr;
  cudaSetDevice(1);
  cudaMalloc(reinterpret_cast<void**>(&others), kBytes);
  cudaSetDevice(0);
  arguments[0] = others + 5;
  EXPECT_DEATH(check_arguments(arguments, sizeof arguments, first_), "is given memory of device 1");
  cudaFree(others);
  EXPECT_DEATH(check_arguments(arguments, sizeof arguments, first_),
               "is given device memory that was freed");
  arguments[0] = device_;
  check_arguments(arguments, sizeof arguments, first_);
  arguments[0] = pinned_ + 7;
  check_arguments(arguments, sizeof arguments, first_);
}

TEST_F(EmulatorStreamsDeathTest, AKernelWritesPastThePagesOfAnArray) {
  const auto overrun = [&] {
    launch(dim3(1), dim3(1), first_, [to = device_] { to[1024] = 1; });
    cudaStreamSynchronize(first_);
  };
  EXPECT_DEATH(overrun(), "");
}

}  // namespace
