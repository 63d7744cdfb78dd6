// In which order blocks and threads run, and streams proceed: what CUDA leaves open.
#pragma once

#include <cstdint>
#include <vector>

namespace emulator {

enum class Order { forward, reverse, shuffled };

// RINGGRAD_EMULATOR_ORDER = forward (the default), reverse, shuffled or shuffled:SEED; a seed that
// was not given is printed. set_order (cuda_runtime.h) overrides it.
Order order();
std::uint64_t order_seed();

// A small generator: SplitMix64 (Steele, Lea, Flood, 2014).
class Shuffler {
 public:
  explicit Shuffler(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t n) { return next() % n; }

 private:
  std::uint64_t state_;
};

// 0 … n-1 in the present order.
void arrange(std::vector<std::uint32_t>& places, std::uint32_t n, Shuffler& shuffler);

}  // namespace emulator
