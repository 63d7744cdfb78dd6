// Built under ThreadSanitizer alone: two threads of a grid that touch the same word without a
// barrier, or a fence and an atomic, between are reported; the corrected twin of each kernel is
// not.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <vector>

namespace {

constexpr unsigned kThreads = 64;
constexpr unsigned kBlocks = 4;

void start(const std::function<void()>& kernel) {
  launch(dim3(kBlocks), dim3(kThreads), nullptr, kernel);
}

float* shared_floats(const void* declaration, std::size_t count) {
  return static_cast<float*>(shared_array(declaration, count * sizeof(float)));
}

class EmulatorRaces : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  std::vector<float> out_ = std::vector<float>(kBlocks * kThreads);
  std::vector<float> partial_ = std::vector<float>(kBlocks);
  unsigned ticket_ = 0;
  float total_ = 0;
};

#define EXPECT_RACE(statement) \
  EXPECT_EXIT(                 \
      {                        \
        statement;             \
        std::exit(0);          \
      },                       \
      testing::ExitedWithCode(66), "data race")
#define EXPECT_NO_RACE(statement) \
  EXPECT_EXIT(                    \
      {                           \
        statement;                \
        std::exit(0);             \
      },                          \
      testing::ExitedWithCode(0), "")

// A neighbour's word, with and without the barrier.
void read_the_neighbour(float* out, bool barrier) {
  start([=] {
    static const char declaration = 0;
    float* shared = shared_floats(&declaration, kThreads);
    shared[threadIdx.x] = 1;
    if (barrier) {
      __syncthreads();
    }
    out[blockIdx.x * kThreads + threadIdx.x] = shared[(threadIdx.x + 1) % kThreads];
  });
}

TEST_F(EmulatorRaces, ThreadsOfABlock) {
  EXPECT_RACE(read_the_neighbour(out_.data(), false));
  EXPECT_NO_RACE(read_the_neighbour(out_.data(), true));
}

// A tile that is read and then overwritten: the second barrier keeps the next round's writes away
// from this round's reads.
void fill_again(float* out, bool second_barrier) {
  start([=] {
    static const char declaration = 0;
    float* shared = shared_floats(&declaration, kThreads);
    float sum = 0;
    for (int round = 0; round < 3; ++round) {
      shared[threadIdx.x] = static_cast<float>(round);
      __syncthreads();
      sum += shared[kThreads - 1 - threadIdx.x];
      if (second_barrier) {
        __syncthreads();
      }
    }
    out[blockIdx.x * kThreads + threadIdx.x] = sum;
  });
}

TEST_F(EmulatorRaces, AReadThatTheNextRoundOverwrites) {
  EXPECT_RACE(fill_again(out_.data(), false));
  EXPECT_NO_RACE(fill_again(out_.data(), true));
}

// The same thread of every block.
void write_by_thread(float* out, bool apart) {
  start([=] { out[apart ? blockIdx.x * kThreads + threadIdx.x : threadIdx.x] = 1; });
}

TEST_F(EmulatorRaces, BlocksThatWriteTheSameWord) {
  EXPECT_RACE(write_by_thread(out_.data(), false));
  EXPECT_NO_RACE(write_by_thread(out_.data(), true));
}

// Lanes of a warp: a shuffle does not order memory, __syncwarp does.
void pass_within_the_warp(float* out, bool ordered) {
  start([=] {
    static const char declaration = 0;
    float* shared = shared_floats(&declaration, kThreads);
    shared[threadIdx.x] = 1;
    if (ordered) {
      __syncwarp();
    } else {
      __shfl_sync(0xffffffffU, 1, 0);
    }
    out[blockIdx.x * kThreads + threadIdx.x] = shared[threadIdx.x ^ 1U];
  });
}

TEST_F(EmulatorRaces, LanesOfAWarp) {
  EXPECT_RACE(pass_within_the_warp(out_.data(), false));
  EXPECT_NO_RACE(pass_within_the_warp(out_.data(), true));
}

// The block that comes last adds up what all have written. Source of the scheme: NVIDIA's sample
// threadFenceReduction.
void reduce(float* partial, unsigned* ticket, float* total, bool fence_before, bool fence_behind) {
  start([=] {
    if (threadIdx.x != 0) {
      return;
    }
    partial[blockIdx.x] = 1;
    if (fence_before) {
      __threadfence();
    }
    if (atomicAdd(ticket, 1U) == gridDim.x - 1) {
      if (fence_behind) {
        __threadfence();
      }
      for (unsigned block = 0; block < gridDim.x; ++block) {
        *total += partial[block];
      }
    }
  });
}

TEST_F(EmulatorRaces, TheLastBlockNeedsItsFences) {
  EXPECT_RACE(reduce(partial_.data(), &ticket_, &total_, false, true));
  EXPECT_RACE(reduce(partial_.data(), &ticket_, &total_, true, false));
  EXPECT_RACE(reduce(partial_.data(), &ticket_, &total_, false, false));
  EXPECT_NO_RACE(reduce(partial_.data(), &ticket_, &total_, true, true));
}

// A fence covers what comes before it, not what comes behind.
void write_behind_the_fence(float* partial, unsigned* ticket, float* total, bool behind) {
  start([=] {
    if (threadIdx.x != 0) {
      return;
    }
    if (!behind) {
      partial[blockIdx.x] = 1;
    }
    __threadfence();
    if (behind) {
      partial[blockIdx.x] = 1;
    }
    if (atomicAdd(ticket, 1U) == gridDim.x - 1) {
      __threadfence();
      *total = partial[0] + partial[1] + partial[2] + partial[3];
    }
  });
}

TEST_F(EmulatorRaces, AFenceThatComesTooEarly) {
  EXPECT_RACE(write_behind_the_fence(partial_.data(), &ticket_, &total_, true));
  EXPECT_NO_RACE(write_behind_the_fence(partial_.data(), &ticket_, &total_, false));
}

// What one kernel wrote, the next one and the host may read.
TEST_F(EmulatorRaces, GridsComeOneAfterTheOther) {
  std::vector<float> next(out_.size());
  write_by_thread(out_.data(), true);
  start([&] { next[blockIdx.x * kThreads + threadIdx.x] = out_[threadIdx.x]; });
  EXPECT_EQ(next, std::vector<float>(next.size(), 1));
}

}  // namespace
