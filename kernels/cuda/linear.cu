// The fully connected layer. All three products are one shared-memory tiled matrix product,
//   out[i][j] = sum over l of a(i, l) * b(l, j),
// that differs in how a and b are read (strides) and in what is added at the end.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/operations.h"

namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE {
namespace {

constexpr unsigned kTile = 16;

struct Product {
  Index rows, columns, inner;
  const float* a;  // element (i, l) at a[i * a_row + l * a_inner]
  Index a_row, a_inner;
  const float* b;  // element (l, j) at b[l * b_inner + j * b_column]
  Index b_inner, b_column;
  const float* bias;  // (columns), or null
  bool accumulate;
  float* out;  // (rows, columns)
};

// A block computes a 16x16 tile of `out`: each step of the loop brings one tile of a and one of b
// into shared memory, where every element is read 16 times.
__global__ void product_kernel(Product p) {
  RINGGRAD_SHARED_ARRAY(float, tile_a, kTile* kTile);
  RINGGRAD_SHARED_ARRAY(float, tile_b, kTile* kTile);
  const unsigned row_in_tile = threadIdx.y;
  const unsigned column_in_tile = threadIdx.x;
  const Index row_tiles = (p.rows + kTile - 1) / kTile;
  const Index column_tiles = (p.columns + kTile - 1) / kTile;
  for (Index tile = blockIdx.x; tile < row_tiles * column_tiles; tile += gridDim.x) {
    const Index i = tile / column_tiles * kTile + row_in_tile;
    const Index j = tile % column_tiles * kTile + column_in_tile;
    float sum = 0;
    for (Index start = 0; start < p.inner; start += kTile) {
      const Index l_a = start + column_in_tile;
      const Index l_b = start + row_in_tile;
      tile_a[row_in_tile * kTile + column_in_tile] =
          i < p.rows && l_a < p.inner ? p.a[i * p.a_row + l_a * p.a_inner] : 0.0F;
      tile_b[row_in_tile * kTile + column_in_tile] =
          j < p.columns && l_b < p.inner ? p.b[l_b * p.b_inner + j * p.b_column] : 0.0F;
      __syncthreads();
      for (unsigned l = 0; l < kTile; ++l) {
        sum += tile_a[row_in_tile * kTile + l] * tile_b[l * kTile + column_in_tile];
      }
      __syncthreads();
    }
    if (i < p.rows && j < p.columns) {
      float* out = p.out + i * p.columns + j;
      sum += p.bias != nullptr ? p.bias[j] : 0.0F;
      *out = p.accumulate ? *out + sum : sum;
    }
  }
}

// One thread per output: dbias[o] = sum over n of dy[n][o], in order.
__global__ void bias_gradient_kernel(Index n, Index out, const float* dy, bool accumulate,
                                     float* dbias) {
  for (Index o = grid_start(); o < out; o += grid_step()) {
    float sum = accumulate ? dbias[o] : 0.0F;
    for (Index row = 0; row < n; ++row) {
      sum += dy[row * out + o];
    }
    dbias[o] = sum;
  }
}

void multiply(Context& context, const Product& p) {
  if (p.rows == 0 || p.columns == 0) {
    return;
  }
  const Index tiles = ((p.rows + kTile - 1) / kTile) * ((p.columns + kTile - 1) / kTile);
  launch(context, static_cast<unsigned>(std::min<Index>(tiles, 1 << 20)), dim3(kTile, kTile),
         product_kernel, p);
}

void linear_forward(Context& context, const LinearForward<float>& a) {
  multiply(context,
           {a.n, a.out, a.in, a.x, a.in, 1, a.w, 1, a.in, a.bias, /*accumulate=*/false, a.y});
}

void linear_backward_data(Context& context, const LinearBackwardData<float>& a) {
  multiply(context,
           {a.n, a.in, a.out, a.dy, a.out, 1, a.w, a.in, 1, nullptr, /*accumulate=*/false, a.dx});
}

void linear_backward_weights(Context& context, const LinearBackwardWeights<float>& a) {
  const bool accumulate = a.mode == GradMode::accumulate;
  multiply(context, {a.out, a.in, a.n, a.dy, 1, a.out, a.x, a.in, 1, nullptr, accumulate, a.dw});
  if (a.dbias != nullptr) {
    launch(context, blocks_for(a.out), kThreads, bias_gradient_kernel, a.n, a.out, a.dy, accumulate,
           a.dbias);
  }
}

}  // namespace

void add_linear(OperationTable& table) {
  table.add<LinearForward<float>, linear_forward>();
  table.add<LinearBackwardData<float>, linear_backward_data>();
  table.add<LinearBackwardWeights<float>, linear_backward_weights>();
}

}  // namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE
