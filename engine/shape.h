// The extents of a tensor, up to four: (N,H,W,C) for images, (K,R,S,C) for filters, (OUT,IN) for
// linear weights.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "runtime/error.h"

namespace ringgrad {

using Index = std::int64_t;

class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<Index> extents) {
    for (const Index extent : extents) {
      push_back(extent);
    }
  }
  void push_back(Index extent) {
    RINGGRAD_CHECK(rank_ < kMaxRank, "a tensor has at most ", kMaxRank, " dimensions");
    RINGGRAD_CHECK(extent >= 0, "extent ", extent, " of dimension ", rank_, " is negative");
    extents_[static_cast<std::size_t>(rank_++)] = extent;
  }

  int rank() const { return rank_; }
  Index operator[](int i) const { return extents_[static_cast<std::size_t>(i)]; }
  // The number of elements; 1 for rank 0.
  Index count() const {
    Index n = 1;
    for (int i = 0; i < rank_; ++i) {
      n *= (*this)[i];
    }
    return n;
  }
  bool operator==(const Shape& other) const {
    return rank_ == other.rank_ && extents_ == other.extents_;
  }
  bool operator!=(const Shape& other) const { return !(*this == other); }

  // "(64, 32, 32, 3)"
  std::string text() const {
    std::string out = "(";
    for (int i = 0; i < rank_; ++i) {
      out += (i > 0 ? ", " : "") + std::to_string((*this)[i]);
    }
    return out + ")";
  }

 private:
  std::array<Index, kMaxRank> extents_{};
  int rank_ = 0;
};

}  // namespace ringgrad
