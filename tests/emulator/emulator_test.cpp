#include <cores.h>
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

TEST(Emulator, SharedMemoryStartsAsNan) {
  bool nan = false;
  launch(dim3(1), dim3(1), nullptr, [&] {
    static const char declaration = 0;
    nan = std::isnan(static_cast<float*>(shared_array(&declaration, 16))[3]);
  });
  EXPECT_TRUE(nan);
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

TEST(Emulator, LanesHearEachOther) {
  std::vector<int> sums(64), halves(64), firsts(64);
  std::vector<unsigned> odd(64);
  launch(dim3(1), dim3(64), nullptr, [&] {
    const auto lane = static_cast<int>(threadIdx.x % 32);
    int sum = static_cast<int>(threadIdx.x);
    for (unsigned by = 16; by > 0; by /= 2) {
      sum += __shfl_down_sync(0xffffffffU, sum, by);
    }
    sums[threadIdx.x] = sum;
    halves[threadIdx.x] = __shfl_xor_sync(0xffffffffU, lane, 1, 16);
    firsts[threadIdx.x] = __shfl_sync(0xffffffffU, lane, 3, 8);
    odd[threadIdx.x] = __ballot_sync(0xffffffffU, lane % 2);
  });
  EXPECT_EQ(sums[0], 31 * 32 / 2);
  EXPECT_EQ(sums[32], 31 * 32 / 2 + 32 * 32);
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(halves[i], static_cast<int>(i % 32 ^ 1U));
    EXPECT_EQ(firsts[i], static_cast<int>(i % 32 / 8 * 8 + 3));
    EXPECT_EQ(odd[i], 0xaaaaaaaaU);
  }
}

TEST(Emulator, PartsOfAWarpMeetApart) {
  std::vector<int> seen(32);
  launch(dim3(1), dim3(32), nullptr, [&] {
    const unsigned half = threadIdx.x < 16 ? 0x0000ffffU : 0xffff0000U;
    seen[threadIdx.x] =
        __all_sync(half, threadIdx.x < 16) + 2 * __any_sync(half, threadIdx.x == 20);
  });
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(seen[i], i < 16 ? 1 : 2);
  }
}

TEST(Emulator, ALaneThatTakesNoPartReadsAsPoison) {
  std::vector<float> heard(8);
  launch(dim3(1), dim3(32), nullptr, [&] {
    if (threadIdx.x < 8) {
      heard[threadIdx.x] = __shfl_sync(0xffU, 1.0F, threadIdx.x < 4 ? 9 : 7);
    }
  });
  EXPECT_TRUE(std::isnan(heard[0]));
  EXPECT_EQ(heard[4], 1);
}

// What each thread of a block does, in the order in which it is done.
std::vector<unsigned> order_under(const char* order) {
  EXPECT_TRUE(set_order(order));
  std::vector<unsigned> seen(80);
  unsigned count = 0;
  launch(dim3(1), dim3(40), nullptr, [&] {
    seen[atomicAdd(&count, 1U)] = threadIdx.x;
    __syncthreads();
    seen[atomicAdd(&count, 1U)] = threadIdx.x;
  });
  set_order("forward");
  return seen;
}

TEST(Emulator, ThreadsRunInTheOrderAskedFor) {
  const std::vector<unsigned> forward = order_under("forward");
  const std::vector<unsigned> reverse = order_under("reverse");
  const std::vector<unsigned> shuffled = order_under("shuffled:7");
  EXPECT_EQ(forward.front(), 0U);
  EXPECT_EQ(forward.back(), 39U);
  EXPECT_EQ(reverse.front(), 39U);
  EXPECT_EQ(reverse.back(), 0U);
  EXPECT_NE(shuffled, forward);
  EXPECT_EQ(shuffled, order_under("shuffled:7"));
  EXPECT_NE(shuffled, order_under("shuffled:8"));
  EXPECT_NE(std::vector<unsigned>(shuffled.begin(), shuffled.begin() + 40),
            std::vector<unsigned>(shuffled.begin() + 40, shuffled.end()))
      << "each round has an order of its own";
  EXPECT_FALSE(set_order("backwards"));
}

// ---- faults that are planted, each with what is said about it

void run(unsigned threads, const std::function<void()>& kernel) {
  launch(dim3(2), dim3(threads), nullptr, kernel);
}

class EmulatorDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(EmulatorDeathTest, ABarrierThatPartOfTheBlockReaches) {
  const auto kernel = [] {
    if (threadIdx.x != 2) {
      __syncthreads();
    }
  };
  EXPECT_DEATH(run(4, kernel),
               "block \\([01],0,0\\) of the kernel launched at emulator_test.cpp:[0-9]+ cannot go "
               "on: thread \\(0,0,0\\) waits at __syncthreads\\(\\) at emulator_test.cpp:[0-9]+, "
               "but thread \\(2,0,0\\) returned");
}

TEST_F(EmulatorDeathTest, ABarrierThatIsReachedAtTwoPlaces) {
  const auto kernel = [] {
    if (threadIdx.x % 2 == 0) {
      __syncthreads();
    } else {
      __syncthreads();
    }
  };
  EXPECT_DEATH(run(4, kernel), "but thread \\(1,0,0\\) waits at __syncthreads\\(\\) at");
}

TEST_F(EmulatorDeathTest, AMaskThatDoesNotNameItsOwnLane) {
  const auto kernel = [] { __shfl_sync(0x1U, 1, 0); };
  EXPECT_DEATH(run(2, kernel),
               "a shuffle at .* with mask 0x00000001, which does not name its own "
               "lane 1");
}

TEST_F(EmulatorDeathTest, AMaskThatNamesALaneTheWarpDoesNotHave) {
  const auto kernel = [] { __syncwarp(); };
  EXPECT_DEATH(run(20, kernel), "mask 0xffffffff, but the warp has 20 lanes");
}

TEST_F(EmulatorDeathTest, ALaneThatTheMaskNamesAndThatDoesNotCome) {
  const auto kernel = [] {
    if (threadIdx.x != 5) {
      __ballot_sync(0xffffffffU, 1);
    }
  };
  EXPECT_DEATH(run(32, kernel), "waits at a vote at .*, but thread \\(5,0,0\\) returned");
}

TEST_F(EmulatorDeathTest, LanesThatDisagreeAboutTheMask) {
  const auto kernel = [] { __syncwarp(threadIdx.x == 0 ? 0x3U : 0xfU); };
  EXPECT_DEATH(run(4, kernel),
               "mask 0x00000003, but thread \\(1,0,0\\) waits at __syncwarp.* mask 0x0000000f");
}

TEST_F(EmulatorDeathTest, ABlockThatWaitsForAnother) {
  const auto wait_for_the_last = [] {
    int flag = 0;
    set_watchdog(0.3);
    launch(dim3(200), dim3(1), nullptr, [&] {
      while (blockIdx.x < 199 && atomicAdd(&flag, 0) == 0) {
      }
      atomicAdd(&flag, 1);
    });
  };
  EXPECT_DEATH(wait_for_the_last(), "has run for .* does it wait for another block");
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
