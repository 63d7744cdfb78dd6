// Philox4x32-10, a counter-based random number generator: the n-th number of a stream is a function
// of (seed, stream, n), so it can be had in any order, on any device and by any number of threads.
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <cstdint>

#include "runtime/on_both_sides.h"

namespace ringgrad {

struct PhiloxBlock {
  std::uint32_t word[4];
};

// The four words of block `counter` of stream `stream` under `seed`.
RINGGRAD_HOST_DEVICE inline PhiloxBlock philox(std::uint64_t seed, std::uint64_t stream,
                                               std::uint64_t counter) {
  std::uint32_t c0 = static_cast<std::uint32_t>(counter);
  std::uint32_t c1 = static_cast<std::uint32_t>(counter >> 32);
  std::uint32_t c2 = static_cast<std::uint32_t>(stream);
  std::uint32_t c3 = static_cast<std::uint32_t>(stream >> 32);
  std::uint32_t k0 = static_cast<std::uint32_t>(seed);
  std::uint32_t k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c0;
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(p1);
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return {{c0, c1, c2, c3}};
}

// A word as a float in [0, 1): its upper 24 bits, so that 1 is never reached.
RINGGRAD_HOST_DEVICE inline float unit_float(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24F;
}

// One stream read number by number, for host code (shuffles, augmentation).
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}

  std::uint32_t next_word() {
    if (next_ == 4) {
      block_ = philox(seed_, stream_, counter_++);
      next_ = 0;
    }
    return block_.word[next_++];
  }
  // In [0, 1).
  float next_float() { return unit_float(next_word()); }
  // In [0, n), without bias: words in the last, incomplete multiple of n are drawn again.
  std::uint32_t next_below(std::uint32_t n) {
    const std::uint32_t reject = (0U - n) % n;
    std::uint32_t word = next_word();
    while (word < reject) {
      word = next_word();
    }
    return word % n;
  }

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint64_t counter_ = 0;
  PhiloxBlock block_{};
  int next_ = 4;
};

// Mixes values into one stream number, so that (epoch, index) or a name picks a stream of its own
// (FNV-1a, 64 bits).
class StreamKey {
 public:
  StreamKey& add(std::uint64_t value) {
    for (int byte = 0; byte < 8; ++byte) {
      add_byte(static_cast<std::uint8_t>(value >> (8 * byte)));
    }
    return *this;
  }
  template <class Text>
  StreamKey& add_text(const Text& text) {
    for (const char c : text) {
      add_byte(static_cast<std::uint8_t>(c));
    }
    return *this;
  }
  std::uint64_t value() const { return hash_; }

 private:
  void add_byte(std::uint8_t byte) { hash_ = (hash_ ^ byte) * 0x100000001b3U; }
  std::uint64_t hash_ = 0xcbf29ce484222325U;
};

}  // namespace ringgrad
