// ReLU and addition.
#include "kernels/kernels.h"
#include "kernels/reference/operations.h"

namespace ringgrad::kernels::reference {
namespace {

template <class T>
void relu_forward(Context&, const ReluForward<T>& a) {
  for (Index i = 0; i < a.n; ++i) {
    a.y[i] = a.x[i] <= 0 ? T{0} : a.x[i];
  }
}

template <class T>
void relu_backward(Context&, const ReluBackward<T>& a) {
  for (Index i = 0; i < a.n; ++i) {
    a.dx[i] = a.y[i] > 0 ? a.dy[i] : T{0};
  }
}

template <class T>
void add(Context&, const Add<T>& a) {
  for (Index i = 0; i < a.n; ++i) {
    a.y[i] = a.a[i] + a.b[i];
  }
}

template <class T>
void add_for(OperationTable& table) {
  table.add<ReluForward<T>, relu_forward<T>>();
  table.add<ReluBackward<T>, relu_backward<T>>();
  table.add<Add<T>, add<T>>();
}

}  // namespace

void add_elementwise(OperationTable& table) {
  add_for<float>(table);
  add_for<double>(table);
}

}  // namespace ringgrad::kernels::reference
