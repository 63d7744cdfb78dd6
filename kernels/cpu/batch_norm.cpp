// Batch normalisation with residual and ReLU: one pass over x for the statistics, one to write y.
// Sums are kept relative to the first row of each channel, so that a large mean does not swallow
// the variance, and rows are added in double.
#include <algorithm>
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

// Two sums per channel over all rows, into sums (2,C): body(begin, end, sum_a, sum_b) adds its
// rows; the threads' sums are added in order.
template <class Body>
void channel_sums(Context& context, Index m, Index c, double* sums, Body&& body) {
  const int chunks = parallel_chunks(context.threads(), m, grain(c));
  std::vector<double> parts(static_cast<std::size_t>(2 * c * chunks));
  parallel_for(context.threads(), m, grain(c), [&](int chunk, Index begin, Index end) {
    double* mine = parts.data() + 2 * c * chunk;
    body(begin, end, mine, mine + c);
  });
  std::fill_n(sums, 2 * c, 0.0);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    sums[i % static_cast<std::size_t>(2 * c)] += parts[i];
  }
}

void moments(Context& context, Index m, Index c, const float* x, const float* shift, double* sums) {
  channel_sums(context, m, c, sums, [&](Index begin, Index end, double* sum, double* squares) {
    loops().shifted_moments(end - begin, c, x + begin * c, shift, sum, squares);
  });
}

void gradient_moments(Context& context, const BatchNormGradientSums<float>& a) {
  channel_sums(context, a.m, a.c, a.sums, [&](Index begin, Index end, double* dy, double* dy_x) {
    const Index at = begin * a.c;
    loops().gradient_moments(end - begin, a.c, a.x + at, a.y != nullptr ? a.y + at : nullptr,
                             a.dy + at, a.mean, dy, dy_x);
  });
}

// The mean of up to 32 rows spread over all: near enough to the true one that little cancels later.
std::vector<float> sampled_mean(Index m, Index c, const float* x) {
  const Index rows = std::min<Index>(m, 32);
  std::vector<double> sum(static_cast<std::size_t>(c));
  for (Index i = 0; i < rows; ++i) {
    loops().column_sums(1, c, x + i * m / rows * c, sum.data());
  }
  std::vector<float> mean;
  for (const double s : sum) {
    mean.push_back(static_cast<float>(s / static_cast<double>(rows)));
  }
  return mean;
}

// With the moments of `rows` rows relative to `shift`, which may be the running mean.
void normalise(Context& context, const BatchNormForward<float>& a, const float* shift,
               const double* sums, double rows) {
  const auto momentum = static_cast<double>(a.momentum);
  std::vector<float> scale(static_cast<std::size_t>(a.c));
  for (Index c = 0; c < a.c; ++c) {
    const double offset = sums[c] / rows;
    const double mean = static_cast<double>(shift[c]) + offset;
    const double squares = sums[a.c + c] - rows * offset * offset;
    const double variance = squares < 0 ? 0.0 : squares / rows;  // keeps NaN
    const double inv_std = 1.0 / std::sqrt(variance + static_cast<double>(a.eps));
    a.mean[c] = static_cast<float>(mean);
    a.inv_std[c] = static_cast<float>(inv_std);
    a.running_mean[c] = static_cast<float>((1 - momentum) * static_cast<double>(a.running_mean[c]) +
                                           momentum * mean);
    a.running_var[c] = static_cast<float>((1 - momentum) * static_cast<double>(a.running_var[c]) +
                                          momentum * variance * rows / (rows - 1));
    scale[static_cast<std::size_t>(c)] =
        static_cast<float>(inv_std * static_cast<double>(a.gamma[c]));
  }
  parallel_for(context.threads(), a.m, grain(a.c), [&](int, Index begin, Index end) {
    const Index at = begin * a.c;
    loops().normalise(end - begin, a.c, a.relu, a.x + at, a.mean, scale.data(), a.beta,
                      a.residual != nullptr ? a.residual + at : nullptr, a.y + at);
  });
}

void batch_norm_forward(Context& context, const BatchNormForward<float>& a) {
  if (a.m == 0) {
    return;
  }
  const std::vector<float> shift = sampled_mean(a.m, a.c, a.x);
  std::vector<double> sums(static_cast<std::size_t>(2 * a.c));
  moments(context, a.m, a.c, a.x, shift.data(), sums.data());
  normalise(context, a, shift.data(), sums.data(), static_cast<double>(a.m));
}

void batch_norm_sums(Context& context, const BatchNormSums<float>& a) {
  const auto rows = static_cast<double>(a.m);
  a.sums[2 * a.c] = rows;
  if (a.m == 0) {
    std::fill_n(a.sums, 2 * a.c, 0.0);
    return;
  }
  // Taken relative to a mean of our own, as above, and moved to the common one in double.
  const std::vector<float> shift = sampled_mean(a.m, a.c, a.x);
  moments(context, a.m, a.c, a.x, shift.data(), a.sums);
  for (Index c = 0; c < a.c; ++c) {
    const double move = static_cast<double>(shift[static_cast<std::size_t>(c)]) -
                        static_cast<double>(a.running_mean[c]);
    a.sums[a.c + c] += 2 * move * a.sums[c] + rows * move * move;
    a.sums[c] += rows * move;
  }
}

void batch_norm_forward_from_sums(Context& context, const BatchNormForwardFromSums<float>& a) {
  normalise(context, a, a.running_mean, a.sums, a.sums[2 * a.c]);
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

void batch_norm_backward_from_sums(Context& context, const BatchNormBackwardFromSums<float>& a) {
  // dx = gamma inv_std (g - sum_g/m - (x - mean) inv_std^2 sum_gx/m), as a line per channel in g
  // and x.
  const auto channels = static_cast<std::size_t>(a.c);
  std::vector<float> lines(3 * channels);
  float* scale = lines.data();
  float* slope = scale + channels;
  float* offset = slope + channels;
  const double rows = *a.rows;
  for (std::size_t c = 0; c < channels && rows > 0; ++c) {
    const auto inv_std = static_cast<double>(a.inv_std[c]);
    const double factor = static_cast<double>(a.gamma[c]) * inv_std;
    scale[c] = static_cast<float>(factor);
    slope[c] = static_cast<float>(-factor * inv_std * inv_std * a.all[channels + c] / rows);
    offset[c] = static_cast<float>(-factor * a.all[c] / rows);
  }
  const bool add = a.mode == GradMode::accumulate;
  for (std::size_t c = 0; c < channels; ++c) {
    const double dgamma = rows > 0 ? a.own[channels + c] * static_cast<double>(a.inv_std[c]) : 0.0;
    const double dbeta = rows > 0 ? a.own[c] : 0.0;
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

void batch_norm_backward(Context& context, const BatchNormBackward<float>& a) {
  std::vector<double> sums(static_cast<std::size_t>(2 * a.c));
  gradient_moments(context, {a.m, a.c, a.x, a.y, a.dy, a.mean, sums.data()});
  const auto rows = static_cast<double>(a.m);
  batch_norm_backward_from_sums(context, {a, sums.data(), sums.data(), &rows});
}

}  // namespace

void add_batch_norm(OperationTable& table) {
  table.add<BatchNormForward<float>, batch_norm_forward>();
  table.add<BatchNormInference<float>, batch_norm_inference>();
  table.add<BatchNormBackward<float>, batch_norm_backward>();
  table.add<BatchNormSums<float>, batch_norm_sums>();
  table.add<BatchNormForwardFromSums<float>, batch_norm_forward_from_sums>();
  table.add<BatchNormGradientSums<float>, gradient_moments>();
  table.add<BatchNormBackwardFromSums<float>, batch_norm_backward_from_sums>();
}

}  // namespace ringgrad::kernels::cpu
