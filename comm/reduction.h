// The arithmetic of reductions, and the one order in which it is done.
//
// An all-reduce of `count` elements over R ranks cuts them into R chunks; chunk c is added in the
// order of ranks c, c+1, …, c+R-1 (mod R), each sum rounded to the element type. The ring gives
// this order by itself (ring.cpp); ranks that share memory follow it (shared_collectives.cpp). So
// the bits depend on inputs, count and world size alone, whatever carried the data.
#pragma once

#include <cstdint>

#include "runtime/dtype.h"
#include "runtime/half.h"

namespace ringgrad::comm {

enum class ReduceOp { sum, average, min, max };

const char* name_of(ReduceOp op);

// Where chunk `chunk` of `count` elements begins; chunk_begin(count, R, R) is count.
inline std::int64_t chunk_begin(std::int64_t count, int chunk, int ranks) {
  return count / ranks * chunk + count % ranks * chunk / ranks;
}

class Reduction {
 public:
  // Error for an element type that cannot be reduced, or an average of integers.
  Reduction(DType dtype, ReduceOp op, int ranks);

  // out = earlier ∘ later, n elements each; out may be one of them.
  void combine(void* out, const void* earlier, const void* later, std::int64_t n) const {
    combine_(out, earlier, later, n);
  }
  // After the last combine: divides by the number of ranks if the reduction is an average.
  void finish(void* data, std::int64_t n) const {
    if (finish_ != nullptr) {
      finish_(data, n, ranks_);
    }
  }

 private:
  void (*combine_)(void* out, const void* earlier, const void* later, std::int64_t n) = nullptr;
  void (*finish_)(void* data, std::int64_t n, int ranks) = nullptr;
  int ranks_;
};

// The largest |x|; NaN if there is one.
float largest_magnitude(const float* x, std::int64_t n);
// to[i] = half(from[i] * scale), and back: to[i] = float(from[i]) * scale.
void to_halves(Half* to, const float* from, float scale, std::int64_t n);
void from_halves(float* to, const Half* from, float scale, std::int64_t n);

}  // namespace ringgrad::comm
