// Changes of element type and of layout, bound by memory.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/operations.h"

namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE {
namespace {

__global__ void image_to_float_kernel(ImageToFloat<float> a) {
  for (Index i = grid_start(); i < a.pixels * a.c; i += grid_step()) {
    const Index c = i % a.c;
    a.y[i] = (static_cast<float>(a.x[i]) / 255.0F - a.mean[c]) / a.stddev[c];
  }
}

constexpr unsigned kTileSide = 32;
constexpr unsigned kTileRows = 8;  // threads

// (rows, columns) to (columns, rows), image by image, through a tile in shared memory, so that
// reads and writes both go along rows. The tile's padding puts a column's elements into different
// banks.
__global__ void transpose_images_kernel(TransposeImages<float> a) {
  RINGGRAD_SHARED_ARRAY(float, tile, kTileSide*(kTileSide + 1));
  const Index down = (a.hw + kTileSide - 1) / kTileSide;
  const Index across = (a.c + kTileSide - 1) / kTileSide;
  for (Index job = blockIdx.x; job < a.n * down * across; job += gridDim.x) {
    const Index n = job / across / down;
    const Index row = job / across % down * kTileSide, column = job % across * kTileSide;
    const float* x = a.x + n * a.hw * a.c;
    float* y = a.y + n * a.hw * a.c;
    for (unsigned i = threadIdx.y; i < kTileSide; i += kTileRows) {
      if (row + i < a.hw && column + threadIdx.x < a.c) {
        tile[i * (kTileSide + 1) + threadIdx.x] = x[(row + i) * a.c + column + threadIdx.x];
      }
    }
    __syncthreads();
    for (unsigned i = threadIdx.y; i < kTileSide; i += kTileRows) {
      if (column + i < a.c && row + threadIdx.x < a.hw) {
        y[(column + i) * a.hw + row + threadIdx.x] = tile[threadIdx.x * (kTileSide + 1) + i];
      }
    }
    __syncthreads();
  }
}

__device__ inline void assign(Half& to, float from) {
  to = to_half(from);
}
__device__ inline void assign(BFloat16& to, float from) {
  to = to_bfloat16(from);
}

template <class T>
__global__ void float_to_half_kernel(FloatToHalf<T> a) {
  for (Index i = grid_start(); i < a.n; i += grid_step()) {
    assign(a.y[i], a.x[i]);
  }
}

template <class T>
__global__ void half_to_float_kernel(HalfToFloat<T> a) {
  for (Index i = grid_start(); i < a.n; i += grid_step()) {
    a.y[i] = to_float(a.x[i]);
  }
}

void image_to_float(Context& context, const ImageToFloat<float>& a) {
  launch(context, blocks_for(a.pixels * a.c), kThreads, image_to_float_kernel, a);
}

void transpose_images(Context& context, const TransposeImages<float>& a) {
  const Index tiles =
      a.n * ((a.hw + kTileSide - 1) / kTileSide) * ((a.c + kTileSide - 1) / kTileSide);
  if (tiles > 0) {
    launch(context, static_cast<unsigned>(std::min<Index>(tiles, 1 << 20)),
           dim3(kTileSide, kTileRows), transpose_images_kernel, a);
  }
}

template <class T>
void float_to_half(Context& context, const FloatToHalf<T>& a) {
  launch(context, blocks_for(a.n), kThreads, float_to_half_kernel<T>, a);
}

template <class T>
void half_to_float(Context& context, const HalfToFloat<T>& a) {
  launch(context, blocks_for(a.n), kThreads, half_to_float_kernel<T>, a);
}

}  // namespace

void add_convert(OperationTable& table) {
  table.add<ImageToFloat<float>, image_to_float>();
  table.add<TransposeImages<float>, transpose_images>();
  table.add<FloatToHalf<Half>, float_to_half<Half>>();
  table.add<FloatToHalf<BFloat16>, float_to_half<BFloat16>>();
  table.add<HalfToFloat<Half>, half_to_float<Half>>();
  table.add<HalfToFloat<BFloat16>, half_to_float<BFloat16>>();
}

}  // namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE
