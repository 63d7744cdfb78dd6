#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace {

TEST(Emulator, RunsEveryThreadOfEveryBlockOnce) {
  std::vector<int> seen(3 * 2 * 4 * 5);
  launch(dim3(3, 2), dim3(4, 5), nullptr, [&] {
    const unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
    const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
    ++seen[block * 20 + thread];
  });
  EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
}

TEST(Emulator, BarriersOrderTheThreadsOfABlock) {
  constexpr unsigned kN = 64;
  std::vector<float> out(2 * kN);
  launch(dim3(2), dim3(kN), nullptr, [&] {
    static const char site = 0;
    auto* shared = static_cast<float*>(shared_array(&site, kN * sizeof(float)));
    shared[threadIdx.x] = static_cast<float>(threadIdx.x + 100 * blockIdx.x);
    __syncthreads();
    out[blockIdx.x * kN + threadIdx.x] = shared[kN - 1 - threadIdx.x];
  });
  for (unsigned i = 0; i < kN; ++i) {
    EXPECT_EQ(out[i], static_cast<float>(kN - 1 - i));
    EXPECT_EQ(out[kN + i], static_cast<float>(kN - 1 - i + 100));
  }
}

TEST(Emulator, SharedAndDeviceMemoryStartAsNan) {
  bool nan = false;
  launch(dim3(1), dim3(1), nullptr, [&] {
    static const char site = 0;
    nan = std::isnan(static_cast<float*>(shared_array(&site, 16))[3]);
  });
  EXPECT_TRUE(nan);
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 64), cudaSuccess);
  EXPECT_TRUE(std::isnan(static_cast<float*>(memory)[5]));
  cudaFree(memory);
}

TEST(Emulator, RefusesDimensionsBeyondTheDevice) {
  const auto nothing = [] {};
  launch(dim3(1), dim3(1025), nullptr, nothing);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  launch(dim3(1, 65536), dim3(1), nullptr, nothing);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  launch(dim3(0), dim3(1), nullptr, nothing);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  launch(dim3(1), dim3(1024), nullptr, nothing);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(EmulatorDeathTest, ReportsABarrierThatPartOfTheBlockReaches) {
  EXPECT_DEATH(launch(dim3(1), dim3(4), nullptr,
                      [] {
                        if (threadIdx.x != 2) {
                          __syncthreads();
                        }
                      }),
               "thread \\(2,0,0\\) of block \\(0,0,0\\) returned while others");
}

TEST(Emulator, ProfilesSetCountAndLimits) {
  ASSERT_TRUE(set_profile("k80x4"));
  int count = 0;
  cudaGetDeviceCount(&count);
  EXPECT_EQ(count, 4);
  cudaDeviceProp properties;
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 3), cudaSuccess);
  EXPECT_EQ(properties.major * 10 + properties.minor, 37);
  EXPECT_EQ(cudaSetDevice(4), cudaErrorInvalidDevice);
  EXPECT_FALSE(set_profile("k81"));
  EXPECT_FALSE(set_profile("k80x0"));
}

}  // namespace
