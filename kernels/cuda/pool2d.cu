// Pooling. Forward: one thread per output. Backward of the maximum: one thread per input, which
// looks at the windows that cover it, so that no two threads add to the same place.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/operations.h"

namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE {
namespace {

__device__ bool is_nan(float value) {
  return value != value;
}

__global__ void max_pool2d_forward_kernel(MaxPool2dForward<float> a) {
  const Pool2dShape& d = a.shape;
  const Index p_count = d.p(), q_count = d.q();
  for (Index out = grid_start(); out < d.n * p_count * q_count * d.c; out += grid_step()) {
    const Index c = out % d.c, q = out / d.c % q_count, p = out / d.c / q_count % p_count;
    const Index n = out / d.c / q_count / p_count;
    float best = 0;
    int tap = -1;
    for (Index i = 0; i < d.kernel * d.kernel; ++i) {
      const Index h = p * d.stride + i / d.kernel - d.pad;
      const Index w = q * d.stride + i % d.kernel - d.pad;
      if (h < 0 || h >= d.h || w < 0 || w >= d.w) {
        continue;
      }
      const float value = a.x[((n * d.h + h) * d.w + w) * d.c + c];
      if (tap < 0 || value > best || (is_nan(value) && !is_nan(best))) {
        best = value;
        tap = static_cast<int>(i);
      }
    }
    const bool cut = a.relu && best <= 0;
    a.y[out] = cut ? 0.0F : best;
    a.tap[out] = static_cast<std::uint8_t>(cut ? 255 : tap);
  }
}

__global__ void max_pool2d_backward_kernel(MaxPool2dBackward<float> a) {
  const Pool2dShape& d = a.shape;
  const Index p_count = d.p(), q_count = d.q();
  for (Index in = grid_start(); in < d.n * d.h * d.w * d.c; in += grid_step()) {
    const Index c = in % d.c, w = in / d.c % d.w, h = in / d.c / d.w % d.h;
    const Index n = in / d.c / d.w / d.h;
    // The first window that ends at or behind this row (column); the last that starts before it.
    const Index first_p = h + d.pad < d.kernel ? 0 : (h + d.pad - d.kernel) / d.stride + 1;
    const Index first_q = w + d.pad < d.kernel ? 0 : (w + d.pad - d.kernel) / d.stride + 1;
    float sum = 0;
    for (Index p = first_p; p < p_count && p * d.stride <= h + d.pad; ++p) {
      for (Index q = first_q; q < q_count && q * d.stride <= w + d.pad; ++q) {
        const Index out = ((n * p_count + p) * q_count + q) * d.c + c;
        const Index tap = (h + d.pad - p * d.stride) * d.kernel + w + d.pad - q * d.stride;
        sum += a.tap[out] == tap ? a.dy[out] : 0.0F;
      }
    }
    a.dx[in] = sum;
  }
}

__global__ void global_avg_pool_forward_kernel(GlobalAvgPoolForward<float> a) {
  for (Index i = grid_start(); i < a.n * a.c; i += grid_step()) {
    const Index n = i / a.c, c = i % a.c;
    float sum = 0;
    for (Index at = 0; at < a.hw; ++at) {
      sum += a.x[(n * a.hw + at) * a.c + c];
    }
    a.y[i] = sum / static_cast<float>(a.hw);
  }
}

__global__ void global_avg_pool_backward_kernel(GlobalAvgPoolBackward<float> a) {
  for (Index i = grid_start(); i < a.n * a.hw * a.c; i += grid_step()) {
    const Index n = i / a.c / a.hw, c = i % a.c;
    a.dx[i] = a.dy[n * a.c + c] / static_cast<float>(a.hw);
  }
}

void max_pool2d_forward(Context& context, const MaxPool2dForward<float>& a) {
  const Pool2dShape& d = a.shape;
  launch(context, blocks_for(d.n * d.p() * d.q() * d.c), kThreads, max_pool2d_forward_kernel, a);
}

void max_pool2d_backward(Context& context, const MaxPool2dBackward<float>& a) {
  const Pool2dShape& d = a.shape;
  launch(context, blocks_for(d.n * d.h * d.w * d.c), kThreads, max_pool2d_backward_kernel, a);
}

void global_avg_pool_forward(Context& context, const GlobalAvgPoolForward<float>& a) {
  launch(context, blocks_for(a.n * a.c), kThreads, global_avg_pool_forward_kernel, a);
}

void global_avg_pool_backward(Context& context, const GlobalAvgPoolBackward<float>& a) {
  launch(context, blocks_for(a.n * a.hw * a.c), kThreads, global_avg_pool_backward_kernel, a);
}

}  // namespace

void add_pool2d(OperationTable& table) {
  table.add<MaxPool2dForward<float>, max_pool2d_forward>();
  table.add<MaxPool2dBackward<float>, max_pool2d_backward>();
  table.add<GlobalAvgPoolForward<float>, global_avg_pool_forward>();
  table.add<GlobalAvgPoolBackward<float>, global_avg_pool_backward>();
}

}  // namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE
