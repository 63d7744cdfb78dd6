// Convolution, forward and backward, each in two ways:
//
//   implicit_gemm  a matrix product (product.h) whose operands are the images as a window slides
//                  over them: nothing is unrolled in memory. With a large tile where there are
//                  enough of them to fill a chip, a small one where not.
//   direct         one thread per output and the sum as it is written in kernels.h: to read first,
//                  and to check the others against.
//
// The gradient with respect to the input is a convolution of dy, backwards. With a stride s, input
// row h only meets the taps r with (h + pad - r) divisible by s, so the rows fall into s classes
// (and the columns too), and each pair of classes is a convolution of its own with every s-th tap:
// no product with the zeros between the pixels of a stretched dy is ever computed.
#include "kernels/cuda/operands.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/product.h"
#include "kernels/cuda/sums.h"

namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE {
namespace {

Sliding sliding_over(const Conv2dShape& d, const float* x) {
  const auto of = [](Index i) { return static_cast<int>(i); };
  return {x,       of(d.h),    of(d.w),    of(d.c),      of(d.p()), of(d.q()),          of(d.r),
          of(d.s), of(-d.pad), of(-d.pad), of(d.stride), 1,         d.n * d.p() * d.q()};
}

template <class Tile>
bool fills_a_chip(Index rows, Index columns) {
  constexpr Index kMultiprocessors = 132;  // of an H100 or H200
  return tiles_of<Tile>(rows, columns) >= kMultiprocessors;
}

// ---- forward: (pixels) x (taps) times (taps) x (filters)

template <class Tile, bool quads>
void forward_product(Context& context, const Conv2dForward<float>& a) {
  const Sliding sliding = sliding_over(a.shape, a.x);
  const Index inner = sliding.taps();
  start_product<Tile>(
      context, {sliding.pixels, a.shape.k, inner}, PixelsByTaps<quads>{sliding},
      DenseOperand<true, quads>{a.w, a.shape.k, inner, inner},
      DenseOut{a.y, sliding.pixels, a.shape.k, a.bias, false, in_quads(a.y, a.shape.k)});
}

template <class Tile>
void forward_implicit_gemm(Context& context, const Conv2dForward<float>& a) {
  if (in_quads(a.x, a.shape.c) && in_quads(a.w, a.shape.c)) {
    forward_product<Tile, true>(context, a);
  } else {
    forward_product<Tile, false>(context, a);
  }
}

__global__ void forward_direct_kernel(Conv2dForward<float> a) {
  const Conv2dShape& d = a.shape;
  const Index p_count = d.p(), q_count = d.q();
  for (Index i = grid_start(); i < d.n * p_count * q_count * d.k; i += grid_step()) {
    const Index k = i % d.k, q = i / d.k % q_count, p = i / d.k / q_count % p_count;
    const Index n = i / d.k / q_count / p_count;
    float sum = a.bias != nullptr ? a.bias[k] : 0.0F;
    for (Index r = 0; r < d.r; ++r) {
      for (Index s = 0; s < d.s; ++s) {
        const Index h = p * d.stride + r - d.pad, w = q * d.stride + s - d.pad;
        for (Index c = 0; c < d.c && h >= 0 && h < d.h && w >= 0 && w < d.w; ++c) {
          sum +=
              a.x[((n * d.h + h) * d.w + w) * d.c + c] * a.w[((k * d.r + r) * d.s + s) * d.c + c];
        }
      }
    }
    a.y[i] = sum;
  }
}

void forward_direct(Context& context, const Conv2dForward<float>& a) {
  launch(context, blocks_for(a.shape.n * a.shape.p() * a.shape.q() * a.shape.k), kThreads,
         forward_direct_kernel, a);
}

// ---- backward with respect to the input, class by class: (pixels) x (taps of dy) times
// (taps) x (channels)

// Where the pixels of a class lie in dx.
struct ClassOut {
  float* dx;
  int h, w, c;
  int first_h, first_w, step;
  int class_h, class_w;  // rows and columns of the class
  bool quads;

  __device__ ClassOut slice(Index) const { return *this; }
  __device__ void put(Index i, Index j, const Lane<4>& sums) const {
    const Index row = i / class_w;
    const Index at_h = first_h + row % class_h * step;
    const Index at_w = first_w + (i - row * class_w) * step;
    float* at = dx + ((row / class_h * h + at_h) * w + at_w) * c + j;
    if (quads) {
      store<4>(at, sums);
      return;
    }
    for (int e = 0; e < 4 && j + e < c; ++e) {
      at[e] = sums.value[e];
    }
  }
};

// The classes along one axis: of the inputs first, first + stride, …, which meet the taps
// first_tap, first_tap + stride, …; the k-th of them meets tap t of these at output k + origin - t.
struct AxisClass {
  AxisClass(Index first_, Index size, Index taps_, Index stride, Index pad)
      : first(static_cast<int>(first_)),
        count(static_cast<int>((size - first_ + stride - 1) / stride)),
        first_tap(static_cast<int>((first_ + pad) % stride)),
        taps(first_tap < taps_ ? static_cast<int>((taps_ - first_tap + stride - 1) / stride) : 0),
        origin(static_cast<int>((first_ + pad - first_tap) / stride)) {}
  int first, count, first_tap, taps, origin;
};

template <class Tile, bool quads>
void backward_data_product(Context& context, const Conv2dBackwardData<float>& a) {
  const Conv2dShape& d = a.shape;
  const auto of = [](Index i) { return static_cast<int>(i); };
  for (Index first_h = 0; first_h < std::min(d.stride, d.h); ++first_h) {
    for (Index first_w = 0; first_w < std::min(d.stride, d.w); ++first_w) {
      const AxisClass rows(first_h, d.h, d.r, d.stride, d.pad);
      const AxisClass columns(first_w, d.w, d.s, d.stride, d.pad);
      // A class that no tap meets gets zeros: the sum over nothing.
      const int taps_h = columns.taps > 0 ? rows.taps : 0;
      const int taps_w = std::max(1, columns.taps);
      const Sliding sliding{a.dy,
                            of(d.p()),
                            of(d.q()),
                            of(d.k),
                            rows.count,
                            columns.count,
                            taps_h,
                            taps_w,
                            rows.origin,
                            columns.origin,
                            1,
                            -1,
                            d.n * rows.count * columns.count};
      start_product<Tile>(
          context, {sliding.pixels, d.c, sliding.taps()}, PixelsByTaps<quads>{sliding},
          ChannelsByFilters<quads>{a.w, of(d.k), of(d.r), of(d.s), of(d.c), rows.first_tap,
                                   columns.first_tap, of(d.stride), taps_h, taps_w},
          ClassOut{a.dx, of(d.h), of(d.w), of(d.c), rows.first, columns.first, of(d.stride),
                   rows.count, columns.count, in_quads(a.dx, d.c)});
    }
  }
}

template <class Tile>
void backward_data_implicit_gemm(Context& context, const Conv2dBackwardData<float>& a) {
  if (in_quads(a.dy, a.shape.k) && in_quads(a.w, a.shape.c)) {
    backward_data_product<Tile, true>(context, a);
  } else {
    backward_data_product<Tile, false>(context, a);
  }
}

__global__ void backward_data_direct_kernel(Conv2dBackwardData<float> a) {
  const Conv2dShape& d = a.shape;
  const Index p_count = d.p(), q_count = d.q();
  for (Index i = grid_start(); i < d.n * d.h * d.w * d.c; i += grid_step()) {
    const Index c = i % d.c, w = i / d.c % d.w, h = i / d.c / d.w % d.h, n = i / d.c / d.w / d.h;
    float sum = 0;
    for (Index r = 0; r < d.r; ++r) {
      for (Index s = 0; s < d.s; ++s) {
        const Index down = h + d.pad - r, right = w + d.pad - s;
        const Index p = down / d.stride, q = right / d.stride;
        const bool meets = down >= 0 && right >= 0 && down % d.stride == 0 &&
                           right % d.stride == 0 && p < p_count && q < q_count;
        for (Index k = 0; k < d.k && meets; ++k) {
          sum += a.dy[((n * p_count + p) * q_count + q) * d.k + k] *
                 a.w[((k * d.r + r) * d.s + s) * d.c + c];
        }
      }
    }
    a.dx[i] = sum;
  }
}

void backward_data_direct(Context& context, const Conv2dBackwardData<float>& a) {
  launch(context, blocks_for(a.shape.n * a.shape.h * a.shape.w * a.shape.c), kThreads,
         backward_data_direct_kernel, a);
}

// ---- backward with respect to the filters: (filters) x (pixels) times (pixels) x (taps)

void backward_bias(Context& context, const Conv2dBackwardWeights<float>& a) {
  if (a.dbias != nullptr) {
    column_sums(context, a.shape.n * a.shape.p() * a.shape.q(), a.shape.k, a.dy,
                a.mode == GradMode::accumulate, a.dbias);
  }
}

template <class Tile, bool quads_dy, bool quads_x>
void backward_weights_product(Context& context, const Conv2dBackwardWeights<float>& a) {
  const Sliding sliding = sliding_over(a.shape, a.x);
  const Index k = a.shape.k;
  start_split_product<Tile>(
      context, {k, sliding.taps(), sliding.pixels},
      DenseOperand<false, quads_dy>{a.dy, k, sliding.pixels, k}, TapsByPixels<quads_x>{sliding},
      DenseOut{a.dw, k, sliding.taps(), nullptr, a.mode == GradMode::accumulate,
               in_quads(a.dw, sliding.taps())});
}

template <class Tile>
void backward_weights_implicit_gemm(Context& context, const Conv2dBackwardWeights<float>& a) {
  const bool quads_dy = in_quads(a.dy, a.shape.k);
  const bool quads_x = in_quads(a.x, a.shape.c);
  if (quads_dy && quads_x) {
    backward_weights_product<Tile, true, true>(context, a);
  } else if (quads_dy) {  // the first layer: three channels
    backward_weights_product<Tile, true, false>(context, a);
  } else {
    backward_weights_product<Tile, false, false>(context, a);
  }
  backward_bias(context, a);
}

__global__ void backward_weights_direct_kernel(Conv2dBackwardWeights<float> a) {
  const Conv2dShape& d = a.shape;
  const Index p_count = d.p(), q_count = d.q();
  for (Index i = grid_start(); i < d.k * d.r * d.s * d.c; i += grid_step()) {
    const Index c = i % d.c, s = i / d.c % d.s, r = i / d.c / d.s % d.r, k = i / d.c / d.s / d.r;
    float sum = 0;
    for (Index n = 0; n < d.n; ++n) {
      for (Index p = 0; p < p_count; ++p) {
        const Index h = p * d.stride + r - d.pad;
        for (Index q = 0; q < q_count && h >= 0 && h < d.h; ++q) {
          const Index w = q * d.stride + s - d.pad;
          if (w >= 0 && w < d.w) {
            sum += a.dy[((n * p_count + p) * q_count + q) * d.k + k] *
                   a.x[((n * d.h + h) * d.w + w) * d.c + c];
          }
        }
      }
    }
    a.dw[i] = a.mode == GradMode::accumulate ? a.dw[i] + sum : sum;
  }
}

void backward_weights_direct(Context& context, const Conv2dBackwardWeights<float>& a) {
  launch(context, blocks_for(a.shape.k * a.shape.r * a.shape.s * a.shape.c), kThreads,
         backward_weights_direct_kernel, a);
  backward_bias(context, a);
}

// ---- which variant is taken

bool forward_fills(const Conv2dForward<float>& a) {
  return fills_a_chip<LargeTile>(a.shape.n * a.shape.p() * a.shape.q(), a.shape.k);
}
bool backward_data_fills(const Conv2dBackwardData<float>& a) {
  const Index classes = a.shape.stride * a.shape.stride;
  return fills_a_chip<LargeTile>(a.shape.n * a.shape.h * a.shape.w / classes, a.shape.c);
}
// Its splits fill the chip, so the tile need only be filled itself.
bool backward_weights_fills(const Conv2dBackwardWeights<float>& a) {
  return a.shape.k >= LargeTile::kRows && a.shape.r * a.shape.s * a.shape.c >= LargeTile::kColumns;
}

}  // namespace

void add_conv2d(OperationTable& table) {
  table.add<Conv2dForward<float>>(
      {{"implicit_gemm_large", forward_implicit_gemm<LargeTile>, nullptr, forward_fills},
       {"implicit_gemm", forward_implicit_gemm<SmallTile>, nullptr, nullptr},
       {"direct", forward_direct, nullptr, nullptr}});
  table.add<Conv2dBackwardData<float>>(
      {{"implicit_gemm_large", backward_data_implicit_gemm<LargeTile>, nullptr,
        backward_data_fills},
       {"implicit_gemm", backward_data_implicit_gemm<SmallTile>, nullptr, nullptr},
       {"direct", backward_data_direct, nullptr, nullptr}});
  table.add<Conv2dBackwardWeights<float>>(
      {{"implicit_gemm_large", backward_weights_implicit_gemm<LargeTile>, nullptr,
        backward_weights_fills},
       {"implicit_gemm", backward_weights_implicit_gemm<SmallTile>, nullptr, nullptr},
       {"direct", backward_weights_direct, nullptr, nullptr}});
}

}  // namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE
