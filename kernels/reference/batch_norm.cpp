// Batch normalisation with residual and ReLU, two passes for the statistics.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/reference/operations.h"

namespace ringgrad::kernels::reference {
namespace {

template <class T>
double activated(const T* residual, bool relu, Index i, double value) {
  value += residual != nullptr ? static_cast<double>(residual[i]) : 0.0;
  return relu && value < 0 ? 0.0 : value;
}

// From the mean and the sum of squared deviations of `rows` values of a channel.
template <class T>
void normalise(const BatchNormForward<T>& a, Index c, double mean, double squares, double rows) {
  const double inv_std = 1.0 / std::sqrt(squares / rows + static_cast<double>(a.eps));
  const auto momentum = static_cast<double>(a.momentum);
  a.mean[c] = static_cast<T>(mean);
  a.inv_std[c] = static_cast<T>(inv_std);
  a.running_mean[c] =
      static_cast<T>((1 - momentum) * static_cast<double>(a.running_mean[c]) + momentum * mean);
  a.running_var[c] = static_cast<T>((1 - momentum) * static_cast<double>(a.running_var[c]) +
                                    momentum * squares / (rows - 1));
  for (Index row = 0; row < a.m; ++row) {
    const Index i = row * a.c + c;
    const double normal = (static_cast<double>(a.x[i]) - mean) * inv_std;
    const double value = normal * static_cast<double>(a.gamma[c]) + static_cast<double>(a.beta[c]);
    a.y[i] = static_cast<T>(activated(a.residual, a.relu, i, value));
  }
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
    normalise(a, c, mean, squares, m);
  }
}

template <class T>
void batch_norm_sums(Context&, const BatchNormSums<T>& a) {
  std::fill_n(a.sums, 2 * a.c, 0.0);
  for (Index i = 0; i < a.m * a.c; ++i) {
    const Index c = i % a.c;
    const double d = static_cast<double>(a.x[i]) - static_cast<double>(a.running_mean[c]);
    a.sums[c] += d;
    a.sums[a.c + c] += d * d;
  }
  a.sums[2 * a.c] = static_cast<double>(a.m);
}

template <class T>
void batch_norm_forward_from_sums(Context&, const BatchNormForwardFromSums<T>& a) {
  const double rows = a.sums[2 * a.c];
  for (Index c = 0; c < a.c; ++c) {
    const double offset = a.sums[c] / rows;
    normalise(a, c, static_cast<double>(a.running_mean[c]) + offset,
              a.sums[a.c + c] - rows * offset * offset, rows);
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
double counted_dy(const T* y, const T* dy, Index i) {
  return y != nullptr && !(y[i] > 0) ? 0.0 : static_cast<double>(dy[i]);
}

template <class T>
void batch_norm_gradient_sums(Context&, const BatchNormGradientSums<T>& a) {
  std::fill_n(a.sums, 2 * a.c, 0.0);
  for (Index i = 0; i < a.m * a.c; ++i) {
    const Index c = i % a.c;
    const double dy = counted_dy(a.y, a.dy, i);
    a.sums[c] += dy;
    a.sums[a.c + c] += dy * (static_cast<double>(a.x[i]) - static_cast<double>(a.mean[c]));
  }
}

template <class T>
void batch_norm_backward_from_sums(Context&, const BatchNormBackwardFromSums<T>& a) {
  const bool add = a.mode == GradMode::accumulate;
  const double rows = *a.rows;
  for (Index c = 0; c < a.c; ++c) {
    const auto inv_std = static_cast<double>(a.inv_std[c]);
    for (Index row = 0; row < a.m; ++row) {
      const Index i = row * a.c + c;
      const double centred = static_cast<double>(a.x[i]) - static_cast<double>(a.mean[c]);
      const double dy = counted_dy(a.y, a.dy, i);
      a.dx[i] = static_cast<T>(
          static_cast<double>(a.gamma[c]) * inv_std *
          (dy - a.all[c] / rows - centred * inv_std * inv_std * a.all[a.c + c] / rows));
      if (a.dresidual != nullptr) {
        a.dresidual[i] = static_cast<T>(dy);
      }
    }
    a.dgamma[c] =
        static_cast<T>(a.own[a.c + c] * inv_std + (add ? static_cast<double>(a.dgamma[c]) : 0.0));
    a.dbeta[c] = static_cast<T>(a.own[c] + (add ? static_cast<double>(a.dbeta[c]) : 0.0));
  }
}

template <class T>
void batch_norm_backward(Context& context, const BatchNormBackward<T>& a) {
  std::vector<double> sums(static_cast<std::size_t>(2 * a.c));
  batch_norm_gradient_sums<T>(context, {a.m, a.c, a.x, a.y, a.dy, a.mean, sums.data()});
  const auto rows = static_cast<double>(a.m);
  batch_norm_backward_from_sums<T>(context, {a, sums.data(), sums.data(), &rows});
}

template <class T>
void add_for(OperationTable& table) {
  table.add<BatchNormForward<T>, batch_norm_forward<T>>();
  table.add<BatchNormInference<T>, batch_norm_inference<T>>();
  table.add<BatchNormBackward<T>, batch_norm_backward<T>>();
  table.add<BatchNormSums<T>, batch_norm_sums<T>>();
  table.add<BatchNormForwardFromSums<T>, batch_norm_forward_from_sums<T>>();
  table.add<BatchNormGradientSums<T>, batch_norm_gradient_sums<T>>();
  table.add<BatchNormBackwardFromSums<T>, batch_norm_backward_from_sums<T>>();
}

}  // namespace

void add_batch_norm(OperationTable& table) {
  add_for<float>(table);
  add_for<double>(table);
}

}  // namespace ringgrad::kernels::reference
