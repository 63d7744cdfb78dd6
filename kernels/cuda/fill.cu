// Constants and random numbers: thread i computes number i from the counter-based generator.
#include <cmath>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/operations.h"
#include "runtime/philox.h"

namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE {
namespace {

__global__ void fill_constant_kernel(Index n, float value, float* y) {
  for (Index i = grid_start(); i < n; i += grid_step()) {
    y[i] = value;
  }
}

__global__ void fill_uniform_kernel(FillRandom<float> a) {
  for (Index i = grid_start(); i < a.n; i += grid_step()) {
    const PhiloxBlock block = philox(a.seed, a.stream, static_cast<std::uint64_t>(i / 4));
    a.y[i] = a.a + (a.b - a.a) * unit_float(block.word[i % 4]);
  }
}

__global__ void fill_normal_kernel(FillRandom<float> a) {
  constexpr double kTwoPi = 6.283185307179586;
  for (Index i = grid_start(); i < a.n; i += grid_step()) {
    const PhiloxBlock block = philox(a.seed, a.stream, static_cast<std::uint64_t>(i / 4));
    const Index lane = i % 4;
    const double u = unit_float(block.word[lane & ~Index{1}]);
    const double v = unit_float(block.word[lane | 1]);
    const double angle = kTwoPi * v;
    const double normal = sqrt(-2.0 * log(1.0 - u)) * (lane % 2 == 0 ? cos(angle) : sin(angle));
    a.y[i] = a.a + a.b * static_cast<float>(normal);
  }
}

void fill_constant(Context& context, const FillConstant<float>& a) {
  launch(context, blocks_for(a.n), kThreads, fill_constant_kernel, a.n, a.value, a.y);
}

void fill_random(Context& context, const FillRandom<float>& a) {
  launch(context, blocks_for(a.n), kThreads,
         a.distribution == Distribution::uniform ? fill_uniform_kernel : fill_normal_kernel, a);
}

}  // namespace

void add_fill(OperationTable& table) {
  table.add<FillConstant<float>, fill_constant>();
  table.add<FillRandom<float>, fill_random>();
}

}  // namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE
