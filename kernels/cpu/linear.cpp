// The fully connected layer: three matrix products by oneDNN on the plain layouts.
#include <algorithm>

#include "kernels/cpu/loops.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/operations.h"

namespace ringgrad::kernels::cpu {
namespace {

// out (rows, columns) = op(a) op(b) + beta * out, all row-major; 'T' reads a matrix transposed.
void multiply(Context& context, char op_a, char op_b, Index rows, Index columns, Index inner,
              const float* a, Index a_stride, const float* b, Index b_stride, float beta,
              float* out) {
  onednn(context);
  const dnnl_status_t status = dnnl_sgemm(op_a, op_b, rows, columns, inner, 1.0F, a, a_stride, b,
                                          b_stride, beta, out, columns);
  RINGGRAD_ASSERT(status == dnnl_success);
}

void linear_forward(Context& context, const LinearForward<float>& a) {
  if (a.n == 0) {
    return;
  }
  if (a.bias != nullptr) {
    for (Index n = 0; n < a.n; ++n) {
      std::copy(a.bias, a.bias + a.out, a.y + n * a.out);
    }
  }
  multiply(context, 'N', 'T', a.n, a.out, a.in, a.x, a.in, a.w, a.in,
           a.bias != nullptr ? 1.0F : 0.0F, a.y);
}

void linear_backward_data(Context& context, const LinearBackwardData<float>& a) {
  if (a.n == 0) {
    return;
  }
  multiply(context, 'N', 'N', a.n, a.in, a.out, a.dy, a.out, a.w, a.in, 0.0F, a.dx);
}

void linear_backward_weights(Context& context, const LinearBackwardWeights<float>& a) {
  const bool add = a.mode == GradMode::accumulate;
  if (a.n > 0) {
    multiply(context, 'T', 'N', a.out, a.in, a.n, a.dy, a.out, a.x, a.in, add ? 1.0F : 0.0F, a.dw);
  } else if (!add) {
    std::fill(a.dw, a.dw + a.out * a.in, 0.0F);
  }
  if (a.dbias != nullptr) {
    std::vector<double> sum(static_cast<std::size_t>(a.out));
    loops().column_sums(a.n, a.out, a.dy, sum.data());
    for (Index o = 0; o < a.out; ++o) {
      const double before = add ? static_cast<double>(a.dbias[o]) : 0.0;
      a.dbias[o] = static_cast<float>(before + sum[static_cast<std::size_t>(o)]);
    }
  }
}

}  // namespace

void add_linear(OperationTable& table) {
  table.add<LinearForward<float>, linear_forward>();
  table.add<LinearBackwardData<float>, linear_backward_data>();
  table.add<LinearBackwardWeights<float>, linear_backward_weights>();
}

}  // namespace ringgrad::kernels::cpu
