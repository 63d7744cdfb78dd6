// The fully connected layer: all three products are product.h's over dense operands, and
//
//   naive  one thread per element of the result, to read first and to check the other against.
#include "kernels/cuda/operands.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/product.h"
#include "kernels/cuda/sums.h"

namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE {
namespace {

// out(i, j) = sum over l of a(i, l) * b(j, l), an operand's row or column side by side in memory.
struct Matrix {
  const float* data;
  bool along_inner;
  Index outer, inner;

  __host__ __device__ Index pitch() const { return along_inner ? inner : outer; }
  __device__ float at(Index o, Index i) const {
    return data[along_inner ? o * inner + i : i * outer + o];
  }
};

template <bool a_along_inner, bool b_along_inner, bool quads>
void multiply_with(Context& context, const Matrix& a, const Matrix& b, const DenseOut& out) {
  start_split_product<SmallTile>(
      context, {a.outer, b.outer, a.inner},
      DenseOperand<a_along_inner, quads>{a.data, a.outer, a.inner, a.pitch()},
      DenseOperand<b_along_inner, quads>{b.data, b.outer, b.inner, b.pitch()}, out);
}

template <bool a_along_inner, bool b_along_inner>
void multiply(Context& context, const Matrix& a, const Matrix& b, const DenseOut& out) {
  if (in_quads(a.data, a.pitch()) && in_quads(b.data, b.pitch())) {
    multiply_with<a_along_inner, b_along_inner, true>(context, a, b, out);
  } else {
    multiply_with<a_along_inner, b_along_inner, false>(context, a, b, out);
  }
}

__global__ void multiply_naively_kernel(Matrix a, Matrix b, DenseOut out) {
  for (Index i = grid_start(); i < a.outer * b.outer; i += grid_step()) {
    const Index row = i / b.outer, column = i % b.outer;
    float sum = out.bias != nullptr ? out.bias[column] : 0.0F;
    for (Index l = 0; l < a.inner; ++l) {
      sum += a.at(row, l) * b.at(column, l);
    }
    out.data[i] = out.accumulate ? out.data[i] + sum : sum;
  }
}

void multiply_naively(Context& context, const Matrix& a, const Matrix& b, const DenseOut& out) {
  launch(context, blocks_for(a.outer * b.outer), kThreads, multiply_naively_kernel, a, b, out);
}

// x is (N,IN), w (OUT,IN), dy (N,OUT): the sum runs over what they share.
struct ForwardProduct {
  Matrix a, b;
  DenseOut out;
  explicit ForwardProduct(const LinearForward<float>& l)
      : a{l.x, true, l.n, l.in}, b{l.w, true, l.out, l.in}, out{l.y,   l.n,
                                                                l.out, l.bias,
                                                                false, in_quads(l.y, l.out)} {}
};
struct BackwardDataProduct {
  Matrix a, b;
  DenseOut out;
  explicit BackwardDataProduct(const LinearBackwardData<float>& l)
      : a{l.dy, true, l.n, l.out}, b{l.w, false, l.in, l.out}, out{l.dx,  l.n,
                                                                   l.in,  nullptr,
                                                                   false, in_quads(l.dx, l.in)} {}
};
struct BackwardWeightsProduct {
  Matrix a, b;
  DenseOut out;
  explicit BackwardWeightsProduct(const LinearBackwardWeights<float>& l)
      : a{l.dy, false, l.out, l.n}, b{l.x, false, l.in, l.n}, out{l.dw,
                                                                  l.out,
                                                                  l.in,
                                                                  nullptr,
                                                                  l.mode == GradMode::accumulate,
                                                                  in_quads(l.dw, l.in)} {}
};

void backward_bias(Context& context, const LinearBackwardWeights<float>& l) {
  if (l.dbias != nullptr) {
    column_sums(context, l.n, l.out, l.dy, l.mode == GradMode::accumulate, l.dbias);
  }
}

void forward_tile(Context& context, const LinearForward<float>& l) {
  const ForwardProduct p(l);
  multiply<true, true>(context, p.a, p.b, p.out);
}
void backward_data_tile(Context& context, const LinearBackwardData<float>& l) {
  const BackwardDataProduct p(l);
  multiply<true, false>(context, p.a, p.b, p.out);
}
void backward_weights_tile(Context& context, const LinearBackwardWeights<float>& l) {
  const BackwardWeightsProduct p(l);
  multiply<false, false>(context, p.a, p.b, p.out);
  backward_bias(context, l);
}

void forward_naive(Context& context, const LinearForward<float>& l) {
  const ForwardProduct p(l);
  multiply_naively(context, p.a, p.b, p.out);
}
void backward_data_naive(Context& context, const LinearBackwardData<float>& l) {
  const BackwardDataProduct p(l);
  multiply_naively(context, p.a, p.b, p.out);
}
void backward_weights_naive(Context& context, const LinearBackwardWeights<float>& l) {
  const BackwardWeightsProduct p(l);
  multiply_naively(context, p.a, p.b, p.out);
  backward_bias(context, l);
}

}  // namespace

void add_linear(OperationTable& table) {
  table.add<LinearForward<float>>(
      {{"tile", forward_tile, nullptr, nullptr}, {"naive", forward_naive, nullptr, nullptr}});
  table.add<LinearBackwardData<float>>({{"tile", backward_data_tile, nullptr, nullptr},
                                        {"naive", backward_data_naive, nullptr, nullptr}});
  table.add<LinearBackwardWeights<float>>({{"tile", backward_weights_tile, nullptr, nullptr},
                                           {"naive", backward_weights_naive, nullptr, nullptr}});
}

}  // namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE
