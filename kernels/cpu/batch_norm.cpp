// Batch normalisation with residual and ReLU: one pass over x for the statistics, one to write y.
// Sums are kept relative to the first row of each channel, so that a large mean does not swallow
// the variance, and rows are added in double.
#include <cmath>
#include <vector>

#include "kernels/cpu/loops.h"
#include "kernels/cpu/operations.h"
#include "kernels/kernels.h"
#include "runtime/parallel.h"

namespace ringgrad::kernels::cpu {
namespace {

// Rows for each thread: enough that starting one pays.
Index grain(Index c) {
  return std::max<Index>(1, 16384 / std::max<Index>(c, 1));
}

// Two sums per channel over all rows: body(begin, end, sum_a, sum_b) adds its rows; the threads'
// sums are added in order.
template <class Body>
std::vector<double> channel_sums(Context& context, Index m, Index c, Body&& body) {
  const int chunks = parallel_chunks(context.threads(), m, grain(c));
  std::vector<double> sums(static_cast<std::size_t>(2 * c * chunks));
  parallel_for(context.threads(), m, grain(c), [&](int chunk, Index begin, Index end) {
    double* mine = sums.data() + 2 * c * chunk;
    body(begin, end, mine, mine + c);
  });
  for (int chunk = 1; chunk < chunks; ++chunk) {
    for (Index i = 0; i < 2 * c; ++i) {
      sums[static_cast<std::size_t>(i)] += sums[static_cast<std::size_t>(2 * c * chunk + i)];
    }
  }
  return sums;
}

// The mean of up to 32 rows spread over all: near enough to the true one that little cancels later.
std::vector<float> sampled_mean(const BatchNormForward<float>& a) {
  const Index rows = std::min<Index>(a.m, 32);
  std::vector<double> sum(static_cast<std::size_t>(a.c));
  for (Index i = 0; i < rows; ++i) {
    loops().column_sums(1, a.c, a.x + i * a.m / rows * a.c, sum.data());
  }
  std::vector<float> mean;
  for (const double s : sum) {
    mean.push_back(static_cast<float>(s / static_cast<double>(rows)));
  }
  return mean;
}

void batch_norm_forward(Context& context, const BatchNormForward<float>& a) {
  if (a.m == 0) {
    return;
  }
  const std::vector<float> shift = sampled_mean(a);
  const std::vector<double> sums =
      channel_sums(context, a.m, a.c, [&](Index begin, Index end, double* sum, double* squares) {
        loops().shifted_moments(end - begin, a.c, a.x + begin * a.c, shift.data(), sum, squares);
      });
  const auto m = static_cast<double>(a.m);
  const auto momentum = static_cast<double>(a.momentum);
  std::vector<float> scale(static_cast<std::size_t>(a.c));
  for (Index c = 0; c < a.c; ++c) {
    const double offset = sums[static_cast<std::size_t>(c)] / m;
    const double mean = static_cast<double>(shift[static_cast<std::size_t>(c)]) + offset;
    const double squares = sums[static_cast<std::size_t>(a.c + c)] - m * offset * offset;
    const double variance = squares < 0 ? 0.0 : squares / m;  // keeps NaN
    const double inv_std = 1.0 / std::sqrt(variance + static_cast<double>(a.eps));
    a.mean[c] = static_cast<float>(mean);
    a.inv_std[c] = static_cast<float>(inv_std);
    a.running_mean[c] = static_cast<float>((1 - momentum) * static_cast<double>(a.running_mean[c]) +
                                           momentum * mean);
    a.running_var[c] = static_cast<float>((1 - momentum) * static_cast<double>(a.running_var[c]) +
                                          momentum * variance * m / (m - 1));
    scale[static_cast<std::size_t>(c)] =
        static_cast<float>(inv_std * static_cast<double>(a.gamma[c]));
  }
  parallel_for(context.threads(), a.m, grain(a.c), [&](int, Index begin, Index end) {
    const Index at = begin * a.c;
    loops().normalise(end - begin, a.c, a.relu, a.x + at, a.mean, scale.data(), a.beta,
                      a.residual != nullptr ? a.residual + at : nullptr, a.y + at);
  });
}

void batch_norm_inference(Context& context, const BatchNormInference<float>& a) {
  std::vector<float> scale(static_cast<std::size_t>(a.c));
  for (Index c = 0; c < a.c; ++c) {
    const double variance = static_cast<double>(a.running_var[c]) + static_cast<double>(a.eps);
    scale[static_cast<std::size_t>(c)] =
        static_cast<float>(static_cast<double>(a.gamma[c]) / std::sqrt(variance));
  }
  parallel_for(context.threads(), a.m, grain(a.c), [&](int, Index begin, Index end) {
    const Index at = begin * a.c;
    loops().normalise(end - begin, a.c, a.relu, a.x + at, a.running_mean, scale.data(), a.beta,
                      a.residual != nullptr ? a.residual + at : nullptr, a.y + at);
  });
}

void batch_norm_backward(Context& context, const BatchNormBackward<float>& a) {
  const auto channels = static_cast<std::size_t>(a.c);
  const std::vector<double> sums =
      channel_sums(context, a.m, a.c, [&](Index begin, Index end, double* dy, double* dy_x) {
        const Index at = begin * a.c;
        loops().gradient_moments(end - begin, a.c, a.x + at, a.y != nullptr ? a.y + at : nullptr,
                                 a.dy + at, a.mean, dy, dy_x);
      });
  // dx = gamma inv_std (g - sum_g/m - (x - mean) inv_std^2 sum_gx/m), as a line per channel in g
  // and x.
  std::vector<float> lines(3 * channels);
  float* scale = lines.data();
  float* slope = scale + channels;
  float* offset = slope + channels;
  const auto m = static_cast<double>(a.m);
  for (std::size_t c = 0; c < channels && a.m > 0; ++c) {
    const auto inv_std = static_cast<double>(a.inv_std[c]);
    const double factor = static_cast<double>(a.gamma[c]) * inv_std;
    scale[c] = static_cast<float>(factor);
    slope[c] = static_cast<float>(-factor * inv_std * inv_std * sums[channels + c] / m);
    offset[c] = static_cast<float>(-factor * sums[c] / m);
  }
  const bool add = a.mode == GradMode::accumulate;
  for (std::size_t c = 0; c < channels; ++c) {
    const double dgamma = a.m > 0 ? sums[channels + c] * static_cast<double>(a.inv_std[c]) : 0.0;
    const double dbeta = a.m > 0 ? sums[c] : 0.0;
    a.dgamma[c] = static_cast<float>(dgamma + (add ? static_cast<double>(a.dgamma[c]) : 0.0));
    a.dbeta[c] = static_cast<float>(dbeta + (add ? static_cast<double>(a.dbeta[c]) : 0.0));
  }
  parallel_for(context.threads(), a.m, grain(a.c), [&](int, Index begin, Index end) {
    const Index at = begin * a.c;
    loops().normalise_backward(end - begin, a.c, a.x + at, a.y != nullptr ? a.y + at : nullptr,
                               a.dy + at, a.mean, scale, slope, offset, a.dx + at,
                               a.dresidual != nullptr ? a.dresidual + at : nullptr);
  });
}

}  // namespace

void add_batch_norm(OperationTable& table) {
  table.add<BatchNormForward<float>, batch_norm_forward>();
  table.add<BatchNormInference<float>, batch_norm_inference>();
  table.add<BatchNormBackward<float>, batch_norm_backward>();
}

}  // namespace ringgrad::kernels::cpu
