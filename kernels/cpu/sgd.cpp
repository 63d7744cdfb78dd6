// SGD over flat memory, one pass, cut among the threads.
#include "kernels/cpu/loops.h"
#include "kernels/cpu/operations.h"
#include "kernels/kernels.h"
#include "runtime/parallel.h"

namespace ringgrad::kernels::cpu {
namespace {

void sgd_step(Context& context, const SgdStep<float>& a) {
  parallel_for(context.threads(), a.n, 16384, [&](int, Index begin, Index end) {
    loops().sgd_step(end - begin, *a.lr, a.momentum, a.weight_decay, a.nesterov, a.grad + begin,
                     a.velocity != nullptr ? a.velocity + begin : nullptr, a.w + begin);
  });
}

}  // namespace

void add_sgd(OperationTable& table) {
  table.add<SgdStep<float>, sgd_step>();
}

}  // namespace ringgrad::kernels::cpu
