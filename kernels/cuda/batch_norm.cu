// Batch normalisation with residual and ReLU. Forward reads x twice: once for the statistics
// (sums.h, each chunk relative to its own first row, so that a large mean does not swallow the
// variance; the chunks' means and squares are merged in double), once to write y. Backward reads x
// and dy twice in the same way. What there is per channel (the statistics, and the line that each
// element goes through) is worked out by a thread per channel between the two.
#include <cmath>

#include "kernels/cuda/operations.h"
#include "kernels/cuda/sums.h"

namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE {
namespace {

// ---- statistics

// Of x - shift and of its square, the shift being the chunk's first row.
struct Moments {
  static constexpr int kCount = 2;
  const float* x;
  Index columns;
  __device__ void add(Index row, Index column, Index first_row, float* sums) const {
    const float d = x[row * columns + column] - x[first_row * columns + column];
    sums[0] += d;
    sums[1] += d * d;
  }
};

struct Statistics {
  double mean, squares;  // the sum of squared deviations
};

// Source: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample
// variances", 1979.
__device__ Statistics merged(const Chunks& chunks, const float* partial, const float* x,
                             Index column) {
  Statistics all{0, 0};
  double rows = 0;
  for (Index chunk = 0; chunk < chunks.count && chunks.rows > 0; ++chunk) {
    const Index first = chunk * chunks.each;
    const Index left = chunks.rows - first;
    const auto n = static_cast<double>(left < chunks.each ? left : chunks.each);
    const double sum = static_cast<double>(partial[chunk * 2 * chunks.columns + column]);
    const double squares = static_cast<double>(partial[(chunk * 2 + 1) * chunks.columns + column]);
    const double mean = static_cast<double>(x[first * chunks.columns + column]) + sum / n;
    const double apart = mean - all.mean;
    all.squares += squares - sum * sum / n + apart * apart * rows * n / (rows + n);
    all.mean += apart * n / (rows + n);
    rows += n;
  }
  return all;
}

__device__ void keep_statistics(const BatchNormForward<float>& a, Index c, const Statistics& of,
                                double rows) {
  const auto momentum = static_cast<double>(a.momentum);
  const double variance = of.squares < 0 ? 0.0 : of.squares / rows;  // keeps NaN
  a.mean[c] = static_cast<float>(of.mean);
  a.inv_std[c] = static_cast<float>(1.0 / sqrt(variance + static_cast<double>(a.eps)));
  a.running_mean[c] = static_cast<float>((1 - momentum) * static_cast<double>(a.running_mean[c]) +
                                         momentum * of.mean);
  a.running_var[c] = static_cast<float>((1 - momentum) * static_cast<double>(a.running_var[c]) +
                                        momentum * variance * rows / (rows - 1));
}

__global__ void statistics_kernel(Chunks chunks, const float* partial, BatchNormForward<float> a) {
  for (Index c = grid_start(); c < a.c; c += grid_step()) {
    keep_statistics(a, c, merged(chunks, partial, a.x, c), static_cast<double>(a.m));
  }
}

__global__ void statistics_from_sums_kernel(BatchNormForwardFromSums<float> a) {
  const double rows = a.sums[2 * a.c];
  for (Index c = grid_start(); c < a.c; c += grid_step()) {
    const double offset = a.sums[c] / rows;
    keep_statistics(
        a, c,
        {static_cast<double>(a.running_mean[c]) + offset, a.sums[a.c + c] - rows * offset * offset},
        rows);
  }
}

// Moves the chunks' sums to the mean that all replicas know.
__global__ void sums_kernel(Chunks chunks, const float* partial, BatchNormSums<float> a) {
  const auto rows = static_cast<double>(a.m);
  for (Index c = grid_start(); c < a.c; c += grid_step()) {
    const Statistics own = merged(chunks, partial, a.x, c);
    const double apart = a.m > 0 ? own.mean - static_cast<double>(a.running_mean[c]) : 0.0;
    a.sums[c] = rows * apart;
    a.sums[a.c + c] = own.squares + rows * apart * apart;
  }
  if (grid_start() == 0) {
    a.sums[2 * a.c] = rows;
  }
}

// ---- element by element, four at a time where channels allow it

// y = f((x - mean) * scale + beta + residual), scale being gamma * inv_std, or from the running
// variance.
template <int width>
__global__ void normalise_kernel(Index n, Index channels, bool relu, const float* x,
                                 const float* mean, const float* scale, const float* beta,
                                 const float* residual, float* y) {
  for (Index i = grid_start() * width; i < n; i += grid_step() * width) {
    const Index c = i % channels;
    Lane<width> lane = load<width>(x + i);
    Lane<width> added{};
    if (residual != nullptr) {
      added = load<width>(residual + i);
    }
    for (int e = 0; e < width; ++e) {
      const float value =
          (lane.value[e] - mean[c + e]) * scale[c + e] + beta[c + e] + added.value[e];
      lane.value[e] = relu && value < 0 ? 0.0F : value;
    }
    store<width>(y + i, lane);
  }
}

__global__ void scale_kernel(BatchNormForward<float> a, float* scale) {
  for (Index c = grid_start(); c < a.c; c += grid_step()) {
    scale[c] = a.inv_std[c] * a.gamma[c];
  }
}

__global__ void running_scale_kernel(BatchNormInference<float> a, float* scale) {
  for (Index c = grid_start(); c < a.c; c += grid_step()) {
    const double variance = static_cast<double>(a.running_var[c]) + static_cast<double>(a.eps);
    scale[c] = static_cast<float>(static_cast<double>(a.gamma[c]) / sqrt(variance));
  }
}

// What the forward and inference structs have in common.
template <class Args>
void normalise(Context& context, const Args& a, const float* mean, const float* scale) {
  const bool quads = in_quads(a.x, a.c) && in_quads(a.y, a.c) &&
                     (a.residual == nullptr || in_quads(a.residual, a.c));
  const Index n = a.m * a.c;
  launch(context, blocks_for(quads ? n / 4 : n), kThreads,
         quads ? normalise_kernel<4> : normalise_kernel<1>, n, a.c, a.relu, a.x, mean, scale,
         a.beta, a.residual, a.y);
}

// An array of this replica for a number (or more) per channel.
template <class T>
class PerChannel {
 public:
  PerChannel(Context& context, Index count)
      : buffer_(Buffer::on_device(context, sizeof(T) * static_cast<std::size_t>(count))) {}
  T* get() const { return static_cast<T*>(buffer_.data()); }

 private:
  Buffer buffer_;
};

void normalise_with_statistics(Context& context, const BatchNormForward<float>& a) {
  const PerChannel<float> scale(context, a.c);
  launch(context, blocks_for(a.c), kThreads, scale_kernel, a, scale.get());
  normalise(context, a, a.mean, scale.get());
}

void batch_norm_forward(Context& context, const BatchNormForward<float>& a) {
  if (a.m == 0) {
    return;
  }
  const Chunks chunks(a.m, a.c);
  const Buffer partial = chunk_sums(context, chunks, Moments{a.x, a.c});
  launch(context, blocks_for(a.c), kThreads, statistics_kernel, chunks,
         static_cast<const float*>(partial.data()), a);
  normalise_with_statistics(context, a);
}

void batch_norm_sums(Context& context, const BatchNormSums<float>& a) {
  const Chunks chunks(a.m, a.c);
  const Buffer partial = chunk_sums(context, chunks, Moments{a.x, a.c});
  launch(context, blocks_for(a.c), kThreads, sums_kernel, chunks,
         static_cast<const float*>(partial.data()), a);
}

void batch_norm_forward_from_sums(Context& context, const BatchNormForwardFromSums<float>& a) {
  launch(context, blocks_for(a.c), kThreads, statistics_from_sums_kernel, a);
  normalise_with_statistics(context, a);
}

void batch_norm_inference(Context& context, const BatchNormInference<float>& a) {
  const PerChannel<float> scale(context, a.c);
  launch(context, blocks_for(a.c), kThreads, running_scale_kernel, a, scale.get());
  normalise(context, a, a.running_mean, scale.get());
}

// ---- backward

__device__ float counted(float y, float dy) {
  return y > 0 ? dy : 0.0F;
}

// Of dy where it counts, and of dy * (x - mean).
struct GradientMoments {
  static constexpr int kCount = 2;
  BatchNormGradientSums<float> a;
  __device__ void add(Index row, Index column, Index, float* sums) const {
    const Index i = row * a.c + column;
    const float dy = a.y != nullptr ? counted(a.y[i], a.dy[i]) : a.dy[i];
    sums[0] += dy;
    sums[1] += dy * (a.x[i] - a.mean[column]);
  }
};

__global__ void gradient_sums_kernel(Chunks chunks, const float* partial,
                                     BatchNormGradientSums<float> a) {
  for (Index c = grid_start(); c < a.c; c += grid_step()) {
    for (int term = 0; term < 2; ++term) {
      a.sums[term * a.c + c] = sum_of_chunks(chunks, partial, 2, term, c);
    }
  }
}

// dx = gamma inv_std (g - sum_g/m - (x - mean) inv_std^2 sum_gx/m), as a line per channel in g and
// x - mean: lines (3,C) holds scale, slope and offset. Where `rows` is null, a.m.
__global__ void gradient_lines_kernel(BatchNormBackwardFromSums<float> a, float* lines) {
  const double rows = a.rows != nullptr ? *a.rows : static_cast<double>(a.m);
  const bool add = a.mode == GradMode::accumulate;
  for (Index c = grid_start(); c < a.c; c += grid_step()) {
    const auto inv_std = rows > 0 ? static_cast<double>(a.inv_std[c]) : 0.0;
    const double factor = static_cast<double>(a.gamma[c]) * inv_std;
    const double dgamma = rows > 0 ? a.own[a.c + c] * inv_std : 0.0;
    const double dbeta = rows > 0 ? a.own[c] : 0.0;
    lines[c] = static_cast<float>(factor);
    lines[a.c + c] = static_cast<float>(-factor * inv_std * inv_std * a.all[a.c + c] / rows);
    lines[2 * a.c + c] = static_cast<float>(-factor * a.all[c] / rows);
    a.dgamma[c] = static_cast<float>(dgamma + (add ? static_cast<double>(a.dgamma[c]) : 0.0));
    a.dbeta[c] = static_cast<float>(dbeta + (add ? static_cast<double>(a.dbeta[c]) : 0.0));
  }
}

template <int width>
__global__ void normalise_backward_kernel(BatchNormBackward<float> a, const float* lines) {
  for (Index i = grid_start() * width; i < a.m * a.c; i += grid_step() * width) {
    const Index c = i % a.c;
    const Lane<width> x = load<width>(a.x + i);
    Lane<width> dy = load<width>(a.dy + i);
    if (a.y != nullptr) {
      const Lane<width> y = load<width>(a.y + i);
      for (int e = 0; e < width; ++e) {
        dy.value[e] = counted(y.value[e], dy.value[e]);
      }
    }
    Lane<width> dx;
    for (int e = 0; e < width; ++e) {
      dx.value[e] = dy.value[e] * lines[c + e] + (x.value[e] - a.mean[c + e]) * lines[a.c + c + e] +
                    lines[2 * a.c + c + e];
    }
    store<width>(a.dx + i, dx);
    if (a.dresidual != nullptr) {
      store<width>(a.dresidual + i, dy);
    }
  }
}

void batch_norm_gradient_sums(Context& context, const BatchNormGradientSums<float>& a) {
  const Chunks chunks(a.m, a.c);
  const Buffer partial = chunk_sums(context, chunks, GradientMoments{a});
  launch(context, blocks_for(a.c), kThreads, gradient_sums_kernel, chunks,
         static_cast<const float*>(partial.data()), a);
}

void batch_norm_backward_from_sums(Context& context, const BatchNormBackwardFromSums<float>& a) {
  const PerChannel<float> lines(context, 3 * a.c);
  launch(context, blocks_for(a.c), kThreads, gradient_lines_kernel, a, lines.get());
  const bool quads = in_quads(a.x, a.c) && in_quads(a.dy, a.c) && in_quads(a.dx, a.c) &&
                     (a.y == nullptr || in_quads(a.y, a.c)) &&
                     (a.dresidual == nullptr || in_quads(a.dresidual, a.c));
  const Index n = a.m * a.c;
  launch(context, blocks_for(quads ? n / 4 : n), kThreads,
         quads ? normalise_backward_kernel<4> : normalise_backward_kernel<1>, a, lines.get());
}

void batch_norm_backward(Context& context, const BatchNormBackward<float>& a) {
  const PerChannel<double> sums(context, 2 * a.c);
  batch_norm_gradient_sums(context, {a.m, a.c, a.x, a.y, a.dy, a.mean, sums.get()});
  batch_norm_backward_from_sums(context, {a, sums.get(), sums.get(), nullptr});
}

}  // namespace

void add_batch_norm(OperationTable& table) {
  table.add<BatchNormForward<float>, batch_norm_forward>();
  table.add<BatchNormInference<float>, batch_norm_inference>();
  table.add<BatchNormBackward<float>, batch_norm_backward>();
  table.add<BatchNormSums<float>, batch_norm_sums>();
  table.add<BatchNormForwardFromSums<float>, batch_norm_forward_from_sums>();
  table.add<BatchNormGradientSums<float>, batch_norm_gradient_sums>();
  table.add<BatchNormBackwardFromSums<float>, batch_norm_backward_from_sums>();
}

}  // namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE
