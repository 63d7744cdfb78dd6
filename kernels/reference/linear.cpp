// The fully connected layer by its definition.
#include "kernels/kernels.h"
#include "kernels/reference/operations.h"

namespace ringgrad::kernels::reference {
namespace {

template <class T>
void linear_forward(Context&, const LinearForward<T>& a) {
  for (Index n = 0; n < a.n; ++n) {
    for (Index o = 0; o < a.out; ++o) {
      double sum = a.bias != nullptr ? static_cast<double>(a.bias[o]) : 0.0;
      for (Index i = 0; i < a.in; ++i) {
        sum += static_cast<double>(a.x[n * a.in + i]) * static_cast<double>(a.w[o * a.in + i]);
      }
      a.y[n * a.out + o] = static_cast<T>(sum);
    }
  }
}

template <class T>
void linear_backward_data(Context&, const LinearBackwardData<T>& a) {
  for (Index n = 0; n < a.n; ++n) {
    for (Index i = 0; i < a.in; ++i) {
      double sum = 0;
      for (Index o = 0; o < a.out; ++o) {
        sum += static_cast<double>(a.dy[n * a.out + o]) * static_cast<double>(a.w[o * a.in + i]);
      }
      a.dx[n * a.in + i] = static_cast<T>(sum);
    }
  }
}

template <class T>
void linear_backward_weights(Context&, const LinearBackwardWeights<T>& a) {
  const bool add = a.mode == GradMode::accumulate;
  for (Index o = 0; o < a.out; ++o) {
    for (Index i = 0; i < a.in; ++i) {
      double sum = add ? static_cast<double>(a.dw[o * a.in + i]) : 0.0;
      for (Index n = 0; n < a.n; ++n) {
        sum += static_cast<double>(a.dy[n * a.out + o]) * static_cast<double>(a.x[n * a.in + i]);
      }
      a.dw[o * a.in + i] = static_cast<T>(sum);
    }
    if (a.dbias != nullptr) {
      double sum = add ? static_cast<double>(a.dbias[o]) : 0.0;
      for (Index n = 0; n < a.n; ++n) {
        sum += static_cast<double>(a.dy[n * a.out + o]);
      }
      a.dbias[o] = static_cast<T>(sum);
    }
  }
}

template <class T>
void add_for(OperationTable& table) {
  table.add<LinearForward<T>, linear_forward<T>>();
  table.add<LinearBackwardData<T>, linear_backward_data<T>>();
  table.add<LinearBackwardWeights<T>, linear_backward_weights<T>>();
}

}  // namespace

void add_linear(OperationTable& table) {
  add_for<float>(table);
  add_for<double>(table);
}

}  // namespace ringgrad::kernels::reference
