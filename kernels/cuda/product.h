// Included by .cu files only: the matrix product that linear layers and convolutions are made of,
//
//   out(i, j) = sum over l of a(i, l) * b(j, l)         i < rows, j < columns, l < inner
//
// where a and b are operands (operands.h): a dense matrix, or images read as a convolution reads
// them, so that no unrolled copy of them is ever written.
//
// A block computes a tile of kRows x kColumns of `out`, kInner steps of l at a time:
//
//                      b  ┌───────────┐  kInner x kColumns, in shared memory
//                         └───────────┘
//        a   ┌──┐         ┌───────────┐
//            │  │         │  ·  ·  ·  │  each thread: kQuadRows x kQuadColumns squares of 4x4,
//            │  │         │  ·  ·  ·  │  one square per half or whole of the tile, in registers
//            └──┘         └───────────┘
//      kRows x kInner
//
// Each element that was brought into shared memory is used kColumns (or kRows) times, each that was
// read from there 4 kQuadColumns (or 4 kQuadRows) times. There are two such tiles: while one is
// multiplied, what comes next is under way from global memory into registers, and goes into the
// other behind the multiplication, so that one barrier per step is enough.
//
// Where `out` has fewer tiles than the chip has multiprocessors, l is split: each split writes its
// sums into a slice of its own, and sum_slices adds them in order. The order of addition depends on
// shapes alone, never on the scheduling of blocks.
#pragma once

#include "kernels/cuda/launch.h"

namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE {

template <int quad_rows, int quad_columns, int inner>
struct Tile {
  static constexpr int kQuadRows = quad_rows;
  static constexpr int kQuadColumns = quad_columns;
  static constexpr int kInner = inner;
  static constexpr int kSide = 16;  // threads along each side
  static constexpr int kThreads = kSide * kSide;
  static constexpr int kRows = quad_rows * 4 * kSide;
  static constexpr int kColumns = quad_columns * 4 * kSide;
};
// A quad of each operand for each thread and step, for both.
using SmallTile = Tile<1, 1, 16>;
using LargeTile = Tile<2, 2, 8>;

// One side's part of a tile in shared memory: kInner rows of `kWidth` elements, padded so that the
// four rows which a thread writes at once lie in different banks.
template <int inner, int width>
struct Panel {
  static constexpr int kInner = inner;
  static constexpr int kPitch = width + 4;
  static constexpr int kSize = inner * kPitch;
  // Where the quad of a thread lies: the operand's `outer` and `inner` index within the tile.
  template <bool along_inner>
  static __device__ int outer_of(int thread) {
    return along_inner ? thread / (inner / 4) : thread % (width / 4) * 4;
  }
  template <bool along_inner>
  static __device__ int inner_of(int thread) {
    return along_inner ? thread % (inner / 4) * 4 : thread / (width / 4);
  }
  template <bool along_inner>
  static __device__ void put(float* panel, int thread, const Lane<4>& quad) {
    float* at = panel + inner_of<along_inner>(thread) * kPitch + outer_of<along_inner>(thread);
    if (along_inner) {
      for (int e = 0; e < 4; ++e) {
        at[e * kPitch] = quad.value[e];
      }
    } else {
      store<4>(at, quad);
    }
  }
};

struct ProductShape {
  Index rows, columns, inner;
  Index splits = 1;       // of `inner`
  Index split_inner = 0;  // a multiple of the tile's kInner; the last split may be shorter
};

// `out` takes four values at (i, j..j+3), of which those past `columns` are not to be stored;
// out.slice(split) is where a split puts them.
template <class Tile, class A, class B, class Out>
__global__ void __launch_bounds__(Tile::kThreads)
    product_kernel(ProductShape shape, A a, B b, Out out) {
  using PanelA = Panel<Tile::kInner, Tile::kRows>;
  using PanelB = Panel<Tile::kInner, Tile::kColumns>;
  RINGGRAD_SHARED_ARRAY(float, panels_a, 2 * PanelA::kSize);
  RINGGRAD_SHARED_ARRAY(float, panels_b, 2 * PanelB::kSize);
  const int thread = static_cast<int>(threadIdx.x);
  const int square_row = thread / Tile::kSide * 4;
  const int square_column = thread % Tile::kSide * 4;
  const Index row_tiles = (shape.rows + Tile::kRows - 1) / Tile::kRows;
  const Index column_tiles = (shape.columns + Tile::kColumns - 1) / Tile::kColumns;
  const Index tiles = row_tiles * column_tiles;
  for (Index job = blockIdx.x; job < tiles * shape.splits; job += gridDim.x) {
    const Index split = job / tiles;
    const Index first_row = job % tiles / column_tiles * Tile::kRows;
    const Index first_column = job % tiles % column_tiles * Tile::kColumns;
    const Index begin = split * shape.split_inner;
    const Index end = split + 1 == shape.splits ? shape.inner : begin + shape.split_inner;
    const Index steps = (end - begin + Tile::kInner - 1) / Tile::kInner;
    auto cursor_a = a.start(first_row + PanelA::template outer_of<A::kAlongInner>(thread),
                            begin + PanelA::template inner_of<A::kAlongInner>(thread));
    auto cursor_b = b.start(first_column + PanelB::template outer_of<B::kAlongInner>(thread),
                            begin + PanelB::template inner_of<B::kAlongInner>(thread));
    float sums[Tile::kQuadRows * 4][Tile::kQuadColumns * 4] = {};
    PanelA::template put<A::kAlongInner>(panels_a, thread, a.load(cursor_a));
    PanelB::template put<B::kAlongInner>(panels_b, thread, b.load(cursor_b));
    __syncthreads();
    for (Index step = 0; step < steps; ++step) {
      const int now = static_cast<int>(step & 1);
      Lane<4> next_a, next_b;
      if (step + 1 < steps) {
        a.advance(cursor_a, Tile::kInner);
        b.advance(cursor_b, Tile::kInner);
        next_a = a.load(cursor_a);
        next_b = b.load(cursor_b);
      }
      const float* panel_a = panels_a + now * PanelA::kSize + square_row;
      const float* panel_b = panels_b + now * PanelB::kSize + square_column;
      RINGGRAD_UNROLL
      for (int l = 0; l < Tile::kInner; ++l) {
        Lane<4> from_a[Tile::kQuadRows], from_b[Tile::kQuadColumns];
        RINGGRAD_UNROLL
        for (int quad = 0; quad < Tile::kQuadRows; ++quad) {
          from_a[quad] = load<4>(panel_a + l * PanelA::kPitch + quad * 4 * Tile::kSide);
        }
        RINGGRAD_UNROLL
        for (int quad = 0; quad < Tile::kQuadColumns; ++quad) {
          from_b[quad] = load<4>(panel_b + l * PanelB::kPitch + quad * 4 * Tile::kSide);
        }
        RINGGRAD_UNROLL
        for (int i = 0; i < 4 * Tile::kQuadRows; ++i) {
          RINGGRAD_UNROLL
          for (int j = 0; j < 4 * Tile::kQuadColumns; ++j) {
            sums[i][j] += from_a[i / 4].value[i % 4] * from_b[j / 4].value[j % 4];
          }
        }
      }
      if (step + 1 < steps) {
        PanelA::template put<A::kAlongInner>(panels_a + (1 - now) * PanelA::kSize, thread, next_a);
        PanelB::template put<B::kAlongInner>(panels_b + (1 - now) * PanelB::kSize, thread, next_b);
      }
      __syncthreads();
    }
    const auto slice = out.slice(split);
    RINGGRAD_UNROLL
    for (int i = 0; i < 4 * Tile::kQuadRows; ++i) {
      const Index row = first_row + i / 4 * 4 * Tile::kSide + square_row + i % 4;
      RINGGRAD_UNROLL
      for (int quad = 0; quad < Tile::kQuadColumns; ++quad) {
        const Index column = first_column + quad * 4 * Tile::kSide + square_column;
        if (row < shape.rows && column < shape.columns) {
          const float* sum = sums[i] + 4 * quad;
          slice.put(row, column, {{sum[0], sum[1], sum[2], sum[3]}});
        }
      }
    }
  }
}

// A dense result (rows, columns), its slices behind one another.
struct DenseOut {
  float* data;
  Index rows, columns;
  const float* bias;  // (columns), or null
  bool accumulate;
  bool quads;  // in_quads of data and columns

  __device__ DenseOut slice(Index split) const {
    DenseOut result = *this;
    result.data += split * rows * columns;
    return result;
  }
  __device__ void put(Index i, Index j, const Lane<4>& sums) const {
    float* at = data + i * columns + j;
    if (quads && bias == nullptr && !accumulate) {
      store<4>(at, sums);
      return;
    }
    for (int e = 0; e < 4 && j + e < columns; ++e) {
      const float sum = sums.value[e] + (bias != nullptr ? bias[j + e] : 0.0F);
      at[e] = accumulate ? at[e] + sum : sum;
    }
  }
};

// `from` holds the slices (slices, rows, columns) of `out`.
inline __global__ void sum_slices_kernel(Index slices, const float* from, DenseOut out) {
  const Index n = out.rows * out.columns;
  for (Index i = grid_start(); i < n; i += grid_step()) {
    float sum = out.bias != nullptr ? out.bias[i % out.columns] : 0.0F;
    for (Index slice = 0; slice < slices; ++slice) {
      sum += from[slice * n + i];
    }
    out.data[i] = out.accumulate ? out.data[i] + sum : sum;
  }
}

template <class Tile>
Index tiles_of(Index rows, Index columns) {
  return ((rows + Tile::kRows - 1) / Tile::kRows) *
         ((columns + Tile::kColumns - 1) / Tile::kColumns);
}

constexpr Index kMostBlocks = 1 << 20;

template <class Tile, class A, class B, class Out>
void start_product(Context& context, const ProductShape& shape, const A& a, const B& b,
                   const Out& out) {
  const Index jobs = tiles_of<Tile>(shape.rows, shape.columns) * shape.splits;
  if (jobs > 0) {
    launch(context, static_cast<unsigned>(std::min(jobs, kMostBlocks)), Tile::kThreads,
           product_kernel<Tile, A, B, Out>, shape, a, b, out);
  }
}

// The same in as many splits as fill a large chip, each of at least kLeastInner steps.
template <class Tile, class A, class B>
void start_split_product(Context& context, ProductShape shape, const A& a, const B& b,
                         const DenseOut& out) {
  constexpr Index kFull = 264;  // blocks: two for each multiprocessor of an H100 or H200
  constexpr Index kLeastInner = 256;
  const Index tiles = std::max<Index>(1, tiles_of<Tile>(shape.rows, shape.columns));
  const Index wanted = std::max<Index>(1, std::min(kFull / tiles, shape.inner / kLeastInner));
  const Index each = (shape.inner + wanted - 1) / wanted;
  shape.split_inner = (each + Tile::kInner - 1) / Tile::kInner * Tile::kInner;
  shape.splits = std::max<Index>(
      1, (shape.inner + shape.split_inner - 1) / std::max<Index>(1, shape.split_inner));
  if (shape.splits == 1) {
    return start_product<Tile>(context, shape, a, b, out);
  }
  const Index n = shape.rows * shape.columns;
  const Buffer slices =
      Buffer::on_device(context, static_cast<std::size_t>(n * shape.splits) * sizeof(float));
  DenseOut parts = out;
  parts.data = static_cast<float*>(slices.data());
  parts.bias = nullptr;
  parts.accumulate = false;
  parts.quads = in_quads(parts.data, shape.columns);
  start_product<Tile>(context, shape, a, b, parts);
  launch(context, blocks_for(n), kThreads, sum_slices_kernel, shape.splits,
         static_cast<const float*>(slices.data()), out);
}

}  // namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE
