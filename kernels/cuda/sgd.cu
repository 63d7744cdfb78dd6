// SGD over flat memory, one pass. __fmul_rn and __fadd_rn are never contracted to a fused
// multiply-add, so the bits are the CPU's.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/operations.h"

namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE {
namespace {

#ifdef RINGGRAD_EMULATED
float multiply(float a, float b) {
  return a * b;
}
float sum(float a, float b) {
  return a + b;
}
#else
__device__ float multiply(float a, float b) {
  return __fmul_rn(a, b);
}
__device__ float sum(float a, float b) {
  return __fadd_rn(a, b);
}
#endif

__global__ void sgd_step_kernel(SgdStep<float> a) {
  const float lr = *a.lr;
  for (Index i = grid_start(); i < a.n; i += grid_step()) {
    float step = sum(a.grad[i], multiply(a.weight_decay, a.w[i]));
    if (a.velocity != nullptr) {
      const float velocity = sum(multiply(a.momentum, a.velocity[i]), step);
      a.velocity[i] = velocity;
      step = a.nesterov ? sum(step, multiply(a.momentum, velocity)) : velocity;
    }
    a.w[i] = sum(a.w[i], -multiply(lr, step));
  }
}

void sgd_step(Context& context, const SgdStep<float>& a) {
  launch(context, blocks_for(a.n), kThreads, sgd_step_kernel, a);
}

}  // namespace

void add_sgd(OperationTable& table) {
  table.add<SgdStep<float>, sgd_step>();
}

}  // namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE
