// ReLU and addition: one grid-stride loop each, bound by memory.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/operations.h"

namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE {
namespace {

__global__ void relu_forward_kernel(Index n, const float* x, float* y) {
  for (Index i = grid_start(); i < n; i += grid_step()) {
    y[i] = x[i] <= 0 ? 0.0F : x[i];
  }
}

__global__ void relu_backward_kernel(Index n, const float* y, const float* dy, float* dx) {
  for (Index i = grid_start(); i < n; i += grid_step()) {
    dx[i] = y[i] > 0 ? dy[i] : 0.0F;
  }
}

__global__ void add_kernel(Index n, const float* a, const float* b, float* y) {
  for (Index i = grid_start(); i < n; i += grid_step()) {
    y[i] = a[i] + b[i];
  }
}

void relu_forward(Context& context, const ReluForward<float>& a) {
  launch(context, blocks_for(a.n), kThreads, relu_forward_kernel, a.n, a.x, a.y);
}

void relu_backward(Context& context, const ReluBackward<float>& a) {
  launch(context, blocks_for(a.n), kThreads, relu_backward_kernel, a.n, a.y, a.dy, a.dx);
}

void add(Context& context, const Add<float>& a) {
  launch(context, blocks_for(a.n), kThreads, add_kernel, a.n, a.a, a.b, a.y);
}

}  // namespace

void add_elementwise(OperationTable& table) {
  table.add<ReluForward<float>, relu_forward>();
  table.add<ReluBackward<float>, relu_backward>();
  table.add<Add<float>, add>();
}

}  // namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE
