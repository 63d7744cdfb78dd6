// Our own vectorised loops: the memory-bound work between convolutions. loops.cpp is compiled once
// for each instruction set with the same source and without fused multiply-add; `loops()` picks the
// widest that this processor has. Each function works on one thread's share; the callers cut the
// work. Rows are pixels, columns are channels, dense. Where pointers are named alike they may be
// equal, else they do not overlap.
#pragma once

#include <cstdint>

namespace ringgrad::kernels::cpu {

struct Loops {
  void (*relu_forward)(std::int64_t n, const float* x, float* y);
  void (*relu_backward)(std::int64_t n, const float* y, const float* dy, float* dx);
  void (*add)(std::int64_t n, const float* a, const float* b, float* y);
  void (*sgd_step)(std::int64_t n, float lr, float momentum, float weight_decay, bool nesterov,
                   const float* grad, float* velocity, float* w);
  // y[i] = (x[i] / 255 - mean[i % c]) / stddev[i % c], c <= 4.
  void (*image_to_float)(std::int64_t pixels, std::int64_t c, const std::uint8_t* x,
                         const float* mean, const float* stddev, float* y);

  // sum[c] += sum over rows of (x - shift[c]), squares[c] += the same of its square.
  void (*shifted_moments)(std::int64_t rows, std::int64_t c, const float* x, const float* shift,
                          double* sum, double* squares);
  // y = f((x - mean) * scale + beta + residual).
  void (*normalise)(std::int64_t rows, std::int64_t c, bool relu, const float* x, const float* mean,
                    const float* scale, const float* beta, const float* residual, float* y);
  // With g = dy where y > 0 (or everywhere if y is null): sum_dy[c] += g, sum_dy_x[c] += g * (x -
  // mean).
  void (*gradient_moments)(std::int64_t rows, std::int64_t c, const float* x, const float* y,
                           const float* dy, const float* mean, double* sum_dy, double* sum_dy_x);
  // dx = scale * g + slope * (x - mean) + offset, and dresidual = g unless it is null.
  void (*normalise_backward)(std::int64_t rows, std::int64_t c, const float* x, const float* y,
                             const float* dy, const float* mean, const float* scale,
                             const float* slope, const float* offset, float* dx, float* dresidual);
  // sum[c] += sum over rows of x.
  void (*column_sums)(std::int64_t rows, std::int64_t c, const float* x, double* sum);

  // Folds one input pixel into a window's maximum: where x wins, best = x and tap = number.
  void (*fold_maximum)(std::int64_t c, const float* x, std::int32_t number, float* best,
                       std::int32_t* tap);
  // Ends a window: y = best and taps as bytes; with relu, values cut off get tap 255.
  void (*finish_maximum)(std::int64_t c, bool relu, const float* best, const std::int32_t* best_tap,
                         float* y, std::uint8_t* tap);
  // dx (+)= dy where tap = number; where not, dx stays or becomes 0.
  void (*scatter_maximum)(std::int64_t c, std::uint8_t number, bool accumulate, const float* dy,
                          const std::uint8_t* tap, float* dx);
};

const Loops& loops();

}  // namespace ringgrad::kernels::cpu
