// Batch normalisation with residual and ReLU, two passes for the statistics.
#include <cmath>

#include "kernels/kernels.h"
#include "kernels/reference/operations.h"

namespace ringgrad::kernels::reference {
namespace {

template <class T>
double activated(const T* residual, bool relu, Index i, double value) {
  value += residual != nullptr ? static_cast<double>(residual[i]) : 0.0;
  return relu && value < 0 ? 0.0 : value;
}

template <class T>
void batch_norm_forward(Context&, const BatchNormForward<T>& a) {
  if (a.m == 0) {
    return;
  }
  const auto m = static_cast<double>(a.m);
  for (Index c = 0; c < a.c; ++c) {
    double mean = 0;
    for (Index row = 0; row < a.m; ++row) {
      mean += static_cast<double>(a.x[row * a.c + c]);
    }
    mean /= m;
    double squares = 0;
    for (Index row = 0; row < a.m; ++row) {
      const double d = static_cast<double>(a.x[row * a.c + c]) - mean;
      squares += d * d;
    }
    const double inv_std = 1.0 / std::sqrt(squares / m + static_cast<double>(a.eps));
    const auto momentum = static_cast<double>(a.momentum);
    a.mean[c] = static_cast<T>(mean);
    a.inv_std[c] = static_cast<T>(inv_std);
    a.running_mean[c] =
        static_cast<T>((1 - momentum) * static_cast<double>(a.running_mean[c]) + momentum * mean);
    a.running_var[c] = static_cast<T>((1 - momentum) * static_cast<double>(a.running_var[c]) +
                                      momentum * squares / (m - 1));
    for (Index row = 0; row < a.m; ++row) {
      const Index i = row * a.c + c;
      const double normal = (static_cast<double>(a.x[i]) - mean) * inv_std;
      const double value =
          normal * static_cast<double>(a.gamma[c]) + static_cast<double>(a.beta[c]);
      a.y[i] = static_cast<T>(activated(a.residual, a.relu, i, value));
    }
  }
}

template <class T>
void batch_norm_inference(Context&, const BatchNormInference<T>& a) {
  for (Index c = 0; c < a.c; ++c) {
    const double scale =
        static_cast<double>(a.gamma[c]) /
        std::sqrt(static_cast<double>(a.running_var[c]) + static_cast<double>(a.eps));
    for (Index row = 0; row < a.m; ++row) {
      const Index i = row * a.c + c;
      const double centred = static_cast<double>(a.x[i]) - static_cast<double>(a.running_mean[c]);
      a.y[i] = static_cast<T>(
          activated(a.residual, a.relu, i, centred * scale + static_cast<double>(a.beta[c])));
    }
  }
}

template <class T>
void batch_norm_backward(Context&, const BatchNormBackward<T>& a) {
  const bool add = a.mode == GradMode::accumulate;
  const auto dy_at = [&](Index i) {
    return a.y != nullptr && !(a.y[i] > 0) ? 0.0 : static_cast<double>(a.dy[i]);
  };
  for (Index c = 0; c < a.c; ++c) {
    const auto mean = static_cast<double>(a.mean[c]);
    const auto inv_std = static_cast<double>(a.inv_std[c]);
    double sum_dy = 0;
    double sum_dy_normal = 0;
    for (Index row = 0; row < a.m; ++row) {
      const Index i = row * a.c + c;
      sum_dy += dy_at(i);
      sum_dy_normal += dy_at(i) * (static_cast<double>(a.x[i]) - mean) * inv_std;
    }
    const auto m = static_cast<double>(a.m);
    for (Index row = 0; row < a.m; ++row) {
      const Index i = row * a.c + c;
      const double normal = (static_cast<double>(a.x[i]) - mean) * inv_std;
      const double dy = dy_at(i);
      a.dx[i] = static_cast<T>(static_cast<double>(a.gamma[c]) * inv_std *
                               (dy - sum_dy / m - normal * sum_dy_normal / m));
      if (a.dresidual != nullptr) {
        a.dresidual[i] = static_cast<T>(dy);
      }
    }
    a.dgamma[c] = static_cast<T>(sum_dy_normal + (add ? static_cast<double>(a.dgamma[c]) : 0.0));
    a.dbeta[c] = static_cast<T>(sum_dy + (add ? static_cast<double>(a.dbeta[c]) : 0.0));
  }
}

template <class T>
void add_for(OperationTable& table) {
  table.add<BatchNormForward<T>, batch_norm_forward<T>>();
  table.add<BatchNormInference<T>, batch_norm_inference<T>>();
  table.add<BatchNormBackward<T>, batch_norm_backward<T>>();
}

}  // namespace

void add_batch_norm(OperationTable& table) {
  add_for<float>(table);
  add_for<double>(table);
}

}  // namespace ringgrad::kernels::reference
