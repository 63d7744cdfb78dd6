// Included by .cu files only: sums over the rows of a matrix (rows, columns), for gradients of a
// bias and statistics of a batch.
//
// Rows are cut into chunks. A block of 32 x 8 threads adds up one chunk of 32 columns: each thread
// every eighth row, so that a warp reads 32 neighbours at a time; then the eight in order. The
// chunks' sums are combined in order, in double precision. Nothing depends on scheduling.
//
//             32 columns
//           ┌────────────┐
//    chunk  │ t0 … t31   │ row 0, 8, 16 …      ┐
//           │ t32 … t63  │ row 1, 9, 17 …      │ eight sums for each column, added in order
//           │ …          │                     ┘
#pragma once

#include "kernels/cuda/launch.h"

namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE {

constexpr unsigned kSumColumns = 32;
constexpr unsigned kSumRows = 8;

struct Chunks {
  Index rows, columns;
  Index count, each;  // chunks, and rows of each

  // As many as fill a large chip, of at least 64 rows.
  Chunks(Index rows_, Index columns_) : rows(rows_), columns(columns_) {
    constexpr Index kBlocks = 1056;
    constexpr Index kLeastRows = 64;
    const Index across = std::max<Index>(1, (columns + kSumColumns - 1) / kSumColumns);
    const Index wanted = std::max<Index>(1, std::min(kBlocks / across, rows / kLeastRows));
    each = std::max<Index>(1, (rows + wanted - 1) / wanted);
    count = std::max<Index>(1, (rows + each - 1) / each);
  }
  Index blocks() const { return count * ((columns + kSumColumns - 1) / kSumColumns); }
};

// For each chunk and column: Terms::kCount sums over its rows. terms.at(row, column, first_row,
// sums) adds one row's terms. partial: (chunks, kCount, columns).
template <class Terms>
__global__ void chunk_sums_kernel(Chunks chunks, Terms terms, float* partial) {
  RINGGRAD_SHARED_ARRAY(float, held, Terms::kCount* kSumRows* kSumColumns);
  const unsigned x = threadIdx.x, y = threadIdx.y;
  const Index across = (chunks.columns + kSumColumns - 1) / kSumColumns;
  for (Index job = blockIdx.x; job < chunks.count * across; job += gridDim.x) {
    const Index chunk = job / across;
    const Index column = job % across * kSumColumns + x;
    const Index first = chunk * chunks.each;
    const Index left = chunks.rows - first;
    const Index end = first + (left < chunks.each ? left : chunks.each);
    float sums[Terms::kCount] = {};
    if (column < chunks.columns) {
      for (Index row = first + y; row < end; row += kSumRows) {
        terms.add(row, column, first, sums);
      }
    }
    for (int term = 0; term < Terms::kCount; ++term) {
      held[(static_cast<unsigned>(term) * kSumRows + y) * kSumColumns + x] = sums[term];
    }
    __syncthreads();
    if (y < Terms::kCount && column < chunks.columns) {
      float sum = 0;
      for (unsigned row = 0; row < kSumRows; ++row) {
        sum += held[(y * kSumRows + row) * kSumColumns + x];
      }
      partial[(chunk * Terms::kCount + y) * chunks.columns + column] = sum;
    }
    __syncthreads();
  }
}

// The partial sums, in memory of this replica.
template <class Terms>
Buffer chunk_sums(Context& context, const Chunks& chunks, const Terms& terms) {
  static_assert(Terms::kCount <= static_cast<int>(kSumRows), "a row of threads for each term");
  Buffer partial = Buffer::on_device(
      context, sizeof(float) * static_cast<std::size_t>(chunks.count * Terms::kCount *
                                                        std::max<Index>(1, chunks.columns)));
  if (chunks.columns > 0) {
    launch(context, static_cast<unsigned>(std::min<Index>(chunks.blocks(), 1 << 20)),
           dim3(kSumColumns, kSumRows), chunk_sums_kernel<Terms>, chunks, terms,
           static_cast<float*>(partial.data()));
  }
  return partial;
}

// Of one term of all chunks, for one column.
__device__ inline double sum_of_chunks(const Chunks& chunks, const float* partial, int terms,
                                       int term, Index column) {
  double sum = 0;
  for (Index chunk = 0; chunk < chunks.count; ++chunk) {
    sum += static_cast<double>(partial[(chunk * terms + term) * chunks.columns + column]);
  }
  return sum;
}

// sums[column] (+)= the sum over all rows of x (rows, columns).
void column_sums(Context& context, Index rows, Index columns, const float* x, bool accumulate,
                 float* sums);

}  // namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE
