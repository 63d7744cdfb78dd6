// Inputs for tests: the same in every run, from the counter-based generator.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/philox.h"

namespace ringgrad::test {

// n numbers uniform in [low, high).
template <class T = float>
std::vector<T> uniform(std::int64_t n, std::uint64_t seed, double low = -1, double high = 1) {
  RandomStream random(seed, 1);
  std::vector<T> values(static_cast<std::size_t>(n));
  for (T& value : values) {
    value = static_cast<T>(low + (high - low) * static_cast<double>(random.next_float()));
  }
  return values;
}

// n whole numbers in [low, high]: sums of their products are exact in float.
template <class T = float>
std::vector<T> integers(std::int64_t n, std::uint64_t seed, int low = -4, int high = 4) {
  RandomStream random(seed, 2);
  std::vector<T> values(static_cast<std::size_t>(n));
  for (T& value : values) {
    value = static_cast<T>(
        low + static_cast<int>(random.next_below(static_cast<std::uint32_t>(high - low + 1))));
  }
  return values;
}

}  // namespace ringgrad::test
