// Stochastic gradient descent with momentum. Computed in T, not in double: its bits are part of the
// contract.
#include "kernels/kernels.h"
#include "kernels/reference/operations.h"

namespace ringgrad::kernels::reference {
namespace {

template <class T>
void sgd_step(Context&, const SgdStep<T>& a) {
  const T lr = static_cast<T>(*a.lr);
  for (Index i = 0; i < a.n; ++i) {
    T step = a.grad[i] + a.weight_decay * a.w[i];
    if (a.velocity != nullptr) {
      const T velocity = a.momentum * a.velocity[i] + step;
      a.velocity[i] = velocity;
      step = a.nesterov ? step + a.momentum * velocity : velocity;
    }
    a.w[i] = a.w[i] - lr * step;
  }
}

}  // namespace

void add_sgd(OperationTable& table) {
  table.add<SgdStep<float>, sgd_step<float>>();
  table.add<SgdStep<double>, sgd_step<double>>();
}

}  // namespace ringgrad::kernels::reference
