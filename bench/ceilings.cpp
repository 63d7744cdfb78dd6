#include "bench/ceilings.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "runtime/cpu_features.h"
#include "runtime/parallel.h"

namespace ringgrad::bench {
namespace {

constexpr long kRounds = 4000000;
constexpr int kChains = 12;  // enough independent chains to fill the latency of two units

using Wide = float __attribute__((vector_size(64)));
using Half = float __attribute__((vector_size(32)));

template <class V>
__attribute__((always_inline)) inline float chains(long rounds) {
  V sums[kChains] = {};
  V a = {};
  V b = {};
  a += 0.999F;
  b += 0.001F;
  for (long i = 0; i < rounds; ++i) {
    for (V& sum : sums) {
      sum = sum * a + b;
    }
  }
  V total = {};
  for (const V& sum : sums) {
    total += sum;
  }
  return total[0];
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) float chains_avx512(long rounds) {
  return chains<Wide>(rounds);
}
__attribute__((target("avx2,fma"))) float chains_avx2(long rounds) {
  return chains<Half>(rounds);
}
#endif
float chains_portable(long rounds) {
  return chains<Half>(rounds);
}

double seconds_of(const std::vector<double>& times) {
  return *std::min_element(times.begin(), times.end());
}

}  // namespace

double peak_gflops(int threads) {
  float (*run)(long) = chains_portable;
  int lanes = 8;
#if defined(__x86_64__)
  if (cpu_features().best == InstructionSet::avx512) {
    run = chains_avx512;
    lanes = 16;
  } else if (cpu_features().best == InstructionSet::avx2) {
    run = chains_avx2;
  }
#endif
  std::vector<double> times;
  volatile float sink = 0;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    parallel_for(threads, threads, 1,
                 [&](int, std::int64_t, std::int64_t) { sink = run(kRounds); });
    times.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return 2.0 * lanes * kChains * kRounds * threads / seconds_of(times) / 1e9;
}

double copy_gbps(int threads) {
  constexpr std::int64_t kBytes = std::int64_t{256} << 20;
  std::vector<char> from(kBytes, 1);
  std::vector<char> to(kBytes, 2);
  std::vector<double> times;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    parallel_for(threads, kBytes, 1 << 20, [&](int, std::int64_t begin, std::int64_t end) {
      std::memcpy(to.data() + begin, from.data() + begin, static_cast<std::size_t>(end - begin));
    });
    times.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return 2.0 * kBytes / seconds_of(times) / 1e9;
}

}  // namespace ringgrad::bench
