// The table of an all-reduce benchmark, as nccl-tests prints it, for any implementation: ours and
// the peers'. Every rank rewrites its buffer before each call, outside the time, and the result of
// every call is checked. busbw = algbw * 2 (R-1)/R is what a link carries. Source of the terms:
// nccl-tests, doc/PERFORMANCE.md.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ringgrad::bench {

struct AllReduceRank {
  int rank, size;
  // The buffer of so many floats; kept until the next call.
  std::function<float*(std::int64_t count)> buffer;
  std::function<void(float* data, std::int64_t count)> sum;
  std::function<void()> barrier;
  // The largest of all ranks' values, in place.
  std::function<void(std::vector<float>& values)> max;
};

inline std::vector<std::int64_t> sizes_from(int argc, char** argv, int first) {
  std::vector<std::int64_t> sizes;
  for (int i = first; i < argc; ++i) {
    sizes.push_back(std::atoll(argv[i]));
  }
  if (sizes.empty()) {
    for (std::int64_t bytes = 4; bytes <= 64 << 20; bytes *= 4) {
      sizes.push_back(bytes);
    }
  }
  return sizes;
}

// Rank 0 prints a line for each size; false if a result was wrong.
inline bool print_allreduce_table(const AllReduceRank& ranks,
                                  const std::vector<std::int64_t>& sizes) {
  if (ranks.rank == 0) {
    std::printf("%12s %10s %10s %10s %8s %8s %7s\n", "bytes", "min us", "p50 us", "p99 us", "algbw",
                "busbw", "#wrong");
  }
  bool right = true;
  for (const std::int64_t bytes : sizes) {
    const std::int64_t count = bytes / 4;
    float* data = ranks.buffer(count);
    const int warm_up = 3;
    const int calls = bytes <= (1 << 16) ? 400 : (bytes <= (4 << 20) ? 40 : 10);
    std::vector<float> micros;
    float wrong = 0;
    for (int call = 0; call < warm_up + calls; ++call) {
      const auto value = [&](int rank, std::int64_t i) {
        return static_cast<float>((rank + call + i) % 5);
      };
      for (std::int64_t i = 0; i < count; ++i) {
        data[i] = value(ranks.rank, i);
      }
      ranks.barrier();
      const auto start = std::chrono::steady_clock::now();
      ranks.sum(data, count);
      const std::chrono::duration<float, std::micro> took =
          std::chrono::steady_clock::now() - start;
      ranks.barrier();  // what a rank does outside the time must not take another's core inside it
      if (call >= warm_up) {
        micros.push_back(took.count());
      }
      for (std::int64_t i = 0; i < count; i += std::max<std::int64_t>(1, count / 1000)) {
        float expected = 0;
        for (int rank = 0; rank < ranks.size; ++rank) {
          expected += value(rank, i);
        }
        wrong += data[i] == expected ? 0.0F : 1.0F;
      }
    }
    micros.push_back(wrong);
    ranks.max(micros);
    wrong = micros.back();
    micros.pop_back();
    std::sort(micros.begin(), micros.end());
    right = right && wrong == 0;
    if (ranks.rank == 0) {
      const double p50 = micros[micros.size() / 2];
      const double algbw = static_cast<double>(bytes) / p50 * 1e-3;  // GB/s
      std::printf("%12lld %10.2f %10.2f %10.2f %8.3f %8.3f %7.0f\n", static_cast<long long>(bytes),
                  static_cast<double>(micros.front()), p50,
                  static_cast<double>(micros[micros.size() * 99 / 100]), algbw,
                  algbw * 2 * (ranks.size - 1) / ranks.size, static_cast<double>(wrong));
      std::fflush(stdout);
    }
  }
  return right;
}

}  // namespace ringgrad::bench
