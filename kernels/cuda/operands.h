// Included by .cu files only: what product.h multiplies. An operand says where element
// (outer, inner) lies; a thread starts a cursor at its place and moves it along `inner`, always by
// the same step, so that no division is left in the loop. load() reads the four elements from the
// cursor on: of consecutive `inner` where kAlongInner, else of consecutive `outer`, whichever lie
// side by side in memory; what is outside reads as 0.
//
// `quads` says that these four are always one aligned access, all of them inside or all outside:
// the operand's rows are aligned and a multiple of four long (in_quads).
#pragma once

#include "kernels/cuda/launch.h"

namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE {

// What is outside (null) reads as 0.
__device__ inline float value_at(const float* data) {
  return data == nullptr ? 0.0F : *data;
}
__device__ inline Lane<4> quad_at(const float* data) {
  return data == nullptr ? Lane<4>{} : load<4>(data);
}

// Of four elements the first `left`, if there are any.
__device__ inline Lane<4> up_to(Index left, const float* data) {
  return {{left > 0 ? data[0] : 0.0F, left > 1 ? data[1] : 0.0F, left > 2 ? data[2] : 0.0F,
           left > 3 ? data[3] : 0.0F}};
}

// Element (outer, inner) at data[outer * pitch + inner] (along_inner) or data[inner * pitch +
// outer].
template <bool along_inner, bool quads>
struct DenseOperand {
  static constexpr bool kAlongInner = along_inner;
  const float* data;
  Index outer_count, inner_count, pitch;

  struct Cursor {
    const float* at;
    Index outer, inner;
  };
  __device__ Cursor start(Index outer, Index inner) const {
    return {data + (along_inner ? outer * pitch + inner : inner * pitch + outer), outer, inner};
  }
  __device__ void advance(Cursor& cursor, int step) const {
    cursor.inner += step;
    cursor.at += along_inner ? step : step * pitch;
  }
  __device__ Lane<4> load(const Cursor& cursor) const {
    const bool inside = cursor.outer < outer_count && cursor.inner < inner_count;
    if (quads) {
      return quad_at(inside ? cursor.at : nullptr);
    }
    const Index left = !inside       ? 0
                       : along_inner ? inner_count - cursor.inner
                                     : outer_count - cursor.outer;
    return up_to(left, cursor.at);
  }
};

// Images (n, in_h, in_w, c) as a window of taps_h x taps_w slides over them: pixel (image, u, v) of
// the result meets, with tap (r, s), the input pixel
//   (first_h + u * step + r * direction, first_w + v * step + s * direction),
// which is 0 where it lies outside. A convolution reads its input so; its gradient with respect to
// the input reads dy in the same way, backwards.
struct Sliding {
  const float* images;
  int in_h, in_w, c;
  int out_h, out_w;
  int taps_h, taps_w;
  int first_h, first_w, step, direction;
  Index pixels;  // n * out_h * out_w

  Index taps() const { return static_cast<Index>(taps_h) * taps_w * c; }

  struct Tap {
    int r, s, channel;
  };
  struct Pixel {
    int image, u, v;
  };
  __device__ Tap tap(Index index) const {
    const auto i = static_cast<unsigned>(index);
    const auto channels = static_cast<unsigned>(c);
    const unsigned rs = i / channels;
    return {static_cast<int>(rs / static_cast<unsigned>(taps_w)),
            static_cast<int>(rs % static_cast<unsigned>(taps_w)), static_cast<int>(i % channels)};
  }
  __device__ void move(Tap& tap, int by) const {
    tap.channel += by;
    while (tap.channel >= c) {
      tap.channel -= c;
      if (++tap.s == taps_w) {
        tap.s = 0;
        ++tap.r;
      }
    }
  }
  __device__ Pixel pixel(Index index) const {
    const Index row = index / out_w;
    return {static_cast<int>(row / out_h), static_cast<int>(row % out_h),
            static_cast<int>(index - row * out_w)};
  }
  __device__ void move(Pixel& pixel, int by) const {
    pixel.v += by;
    while (pixel.v >= out_w) {
      pixel.v -= out_w;
      if (++pixel.u == out_h) {
        pixel.u = 0;
        ++pixel.image;
      }
    }
  }
  // Where they meet; null outside. Tap and pixel must exist.
  __device__ const float* at(const Pixel& pixel, const Tap& tap) const {
    const int h = first_h + pixel.u * step + tap.r * direction;
    const int w = first_w + pixel.v * step + tap.s * direction;
    const bool inside = h >= 0 && h < in_h && w >= 0 && w < in_w;
    return inside ? images + ((static_cast<Index>(pixel.image) * in_h + h) * in_w + w) * c +
                        tap.channel
                  : nullptr;
  }
};

// outer: the pixel; inner: the tap (r, s, channel).
template <bool quads>
struct PixelsByTaps {
  static constexpr bool kAlongInner = true;
  Sliding sliding;

  struct Cursor {
    Sliding::Pixel pixel;
    Sliding::Tap tap;
    bool inside;
  };
  __device__ Cursor start(Index outer, Index inner) const {
    return {sliding.pixel(outer), sliding.tap(inner), outer < sliding.pixels};
  }
  __device__ void advance(Cursor& cursor, int step) const { sliding.move(cursor.tap, step); }
  __device__ float value(const Cursor& cursor, int ahead) const {
    Sliding::Tap tap = cursor.tap;
    sliding.move(tap, ahead);
    const bool exists = cursor.inside && tap.r < sliding.taps_h;
    return exists ? value_at(sliding.at(cursor.pixel, tap)) : 0.0F;
  }
  __device__ Lane<4> load(const Cursor& cursor) const {
    if (quads) {
      const bool exists = cursor.inside && cursor.tap.r < sliding.taps_h;
      return quad_at(exists ? sliding.at(cursor.pixel, cursor.tap) : nullptr);
    }
    return {{value(cursor, 0), value(cursor, 1), value(cursor, 2), value(cursor, 3)}};
  }
};

// outer: the tap; inner: the pixel.
template <bool quads>
struct TapsByPixels {
  static constexpr bool kAlongInner = false;
  Sliding sliding;

  struct Cursor {
    Sliding::Pixel pixel;
    Sliding::Tap tap;
    Index inner;
  };
  __device__ Cursor start(Index outer, Index inner) const {
    return {sliding.pixel(inner), sliding.tap(outer), inner};
  }
  __device__ void advance(Cursor& cursor, int step) const {
    sliding.move(cursor.pixel, step);
    cursor.inner += step;
  }
  __device__ float value(const Cursor& cursor, int ahead) const {
    Sliding::Tap tap = cursor.tap;
    sliding.move(tap, ahead);
    const bool exists = cursor.inner < sliding.pixels && tap.r < sliding.taps_h;
    return exists ? value_at(sliding.at(cursor.pixel, tap)) : 0.0F;
  }
  __device__ Lane<4> load(const Cursor& cursor) const {
    if (quads) {
      const bool exists = cursor.inner < sliding.pixels && cursor.tap.r < sliding.taps_h;
      return quad_at(exists ? sliding.at(cursor.pixel, cursor.tap) : nullptr);
    }
    return {{value(cursor, 0), value(cursor, 1), value(cursor, 2), value(cursor, 3)}};
  }
};

// Every `step`-th tap of filters (K,R,S,C), from (first_r, first_s) on, as the gradient with
// respect to the input reads them: outer: the channel; inner: (r, s, k).
template <bool quads>
struct ChannelsByFilters {
  static constexpr bool kAlongInner = false;
  const float* w;
  int k, r, s, c;
  int first_r, first_s, step;
  int taps_h, taps_w;

  struct Cursor {
    int r, s, k;
    Index channel;
  };
  __device__ Cursor start(Index outer, Index inner) const {
    const auto i = static_cast<unsigned>(inner);
    const unsigned rs = i / static_cast<unsigned>(k);
    return {static_cast<int>(rs / static_cast<unsigned>(taps_w)),
            static_cast<int>(rs % static_cast<unsigned>(taps_w)),
            static_cast<int>(i % static_cast<unsigned>(k)), outer};
  }
  __device__ void advance(Cursor& cursor, int by) const {
    cursor.k += by;
    while (cursor.k >= k) {
      cursor.k -= k;
      if (++cursor.s == taps_w) {
        cursor.s = 0;
        ++cursor.r;
      }
    }
  }
  __device__ Lane<4> load(const Cursor& cursor) const {
    const Index left = cursor.r < taps_h ? c - cursor.channel : 0;
    const float* at = w +
                      ((static_cast<Index>(cursor.k) * r + first_r + cursor.r * step) * s +
                       first_s + cursor.s * step) *
                          c +
                      cursor.channel;
    if (quads) {
      return quad_at(left > 0 ? at : nullptr);
    }
    return up_to(left, at);
  }
};

}  // namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE
