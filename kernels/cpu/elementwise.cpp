// ReLU and addition, cut among the threads.
#include "kernels/cpu/loops.h"
#include "kernels/cpu/operations.h"
#include "kernels/kernels.h"
#include "runtime/parallel.h"

namespace ringgrad::kernels::cpu {
namespace {

constexpr Index kGrain = 16384;

void relu_forward(Context& context, const ReluForward<float>& a) {
  parallel_for(context.threads(), a.n, kGrain, [&](int, Index begin, Index end) {
    loops().relu_forward(end - begin, a.x + begin, a.y + begin);
  });
}

void relu_backward(Context& context, const ReluBackward<float>& a) {
  parallel_for(context.threads(), a.n, kGrain, [&](int, Index begin, Index end) {
    loops().relu_backward(end - begin, a.y + begin, a.dy + begin, a.dx + begin);
  });
}

void add(Context& context, const Add<float>& a) {
  parallel_for(context.threads(), a.n, kGrain, [&](int, Index begin, Index end) {
    loops().add(end - begin, a.a + begin, a.b + begin, a.y + begin);
  });
}

}  // namespace

void add_elementwise(OperationTable& table) {
  table.add<ReluForward<float>, relu_forward>();
  table.add<ReluBackward<float>, relu_backward>();
  table.add<Add<float>, add>();
}

}  // namespace ringgrad::kernels::cpu
