#include "kernels/cuda/sums.h"

namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE {
namespace {

struct Values {
  static constexpr int kCount = 1;
  const float* x;
  Index columns;
  __device__ void add(Index row, Index column, Index, float* sums) const {
    sums[0] += x[row * columns + column];
  }
};

__global__ void column_sums_kernel(Chunks chunks, const float* partial, bool accumulate,
                                   float* sums) {
  for (Index column = grid_start(); column < chunks.columns; column += grid_step()) {
    const auto sum = static_cast<float>(sum_of_chunks(chunks, partial, Values::kCount, 0, column));
    sums[column] = accumulate ? sums[column] + sum : sum;
  }
}

}  // namespace

void column_sums(Context& context, Index rows, Index columns, const float* x, bool accumulate,
                 float* sums) {
  const Chunks chunks(rows, columns);
  const Buffer partial = chunk_sums(context, chunks, Values{x, columns});
  launch(context, blocks_for(columns), kThreads, column_sums_kernel, chunks,
         static_cast<const float*>(partial.data()), accumulate, sums);
}

}  // namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE
