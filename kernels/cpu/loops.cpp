// Compiled several times, with RINGGRAD_LOOPS naming the function that hands out this copy.
// Includes nothing that could emit shared inline code: such code, built for a wide instruction set,
// could be the copy that the linker keeps for the whole program.
#include "kernels/cpu/loops.h"

namespace ringgrad::kernels::cpu {
namespace {

using Index = std::int64_t;

void relu_forward(Index n, const float* x, float* y) {
  for (Index i = 0; i < n; ++i) {
    y[i] = x[i] <= 0 ? 0.0F : x[i];
  }
}

void relu_backward(Index n, const float* y, const float* dy, float* dx) {
  for (Index i = 0; i < n; ++i) {
    dx[i] = y[i] > 0 ? dy[i] : 0.0F;
  }
}

void add(Index n, const float* a, const float* b, float* y) {
  for (Index i = 0; i < n; ++i) {
    y[i] = a[i] + b[i];
  }
}

void sgd_step(Index n, float lr, float momentum, float weight_decay, bool nesterov,
              const float* __restrict grad, float* __restrict velocity, float* __restrict w) {
  if (velocity == nullptr) {
    for (Index i = 0; i < n; ++i) {
      w[i] -= lr * (grad[i] + weight_decay * w[i]);
    }
  } else if (nesterov) {
    for (Index i = 0; i < n; ++i) {
      const float g = grad[i] + weight_decay * w[i];
      const float v = momentum * velocity[i] + g;
      velocity[i] = v;
      w[i] -= lr * (g + momentum * v);
    }
  } else {
    for (Index i = 0; i < n; ++i) {
      const float g = grad[i] + weight_decay * w[i];
      const float v = momentum * velocity[i] + g;
      velocity[i] = v;
      w[i] -= lr * v;
    }
  }
}

void image_to_float(Index pixels, Index c, const std::uint8_t* __restrict x, const float* mean,
                    const float* stddev, float* __restrict y) {
  // Twelve values are a whole number of pixels for 1, 2, 3 and 4 channels alike.
  float means[12];
  float stddevs[12];
  for (Index i = 0; i < 12; ++i) {
    means[i] = mean[i % c];
    stddevs[i] = stddev[i % c];
  }
  const Index n = pixels * c;
  Index i = 0;
  for (; i + 12 <= n; i += 12) {
    for (Index j = 0; j < 12; ++j) {
      y[i + j] = (static_cast<float>(x[i + j]) / 255.0F - means[j]) / stddevs[j];
    }
  }
  for (Index j = 0; i < n; ++i, ++j) {
    y[i] = (static_cast<float>(x[i]) / 255.0F - means[j]) / stddevs[j];
  }
}

// Channels are walked in strips whose sums stay in registers, rows in blocks whose sums stay exact
// enough in float before they go into the doubles.
constexpr Index kStrip = 32;
constexpr Index kRowBlock = 32;

// Calls body(row_begin, row_end, column, width) for every block of rows and strip of columns.
template <class Body>
void for_each_strip(Index rows, Index c, Body&& body) {
  for (Index begin = 0; begin < rows; begin += kRowBlock) {
    const Index end = begin + kRowBlock < rows ? begin + kRowBlock : rows;
    Index column = 0;
    for (; column + kStrip <= c; column += kStrip) {
      body(begin, end, column, kStrip);
    }
    if (column < c) {
      body(begin, end, column, c - column);
    }
  }
}

// The two sums of term(row offset, column) over a strip; written twice so that the common width is
// a constant.
template <class Term>
void strip_sums(Index begin, Index end, Index c, Index column, Index width, double* sum_a,
                double* sum_b, Term&& term) {
  float a[kStrip] = {};
  float b[kStrip] = {};
  if (width == kStrip) {
    for (Index row = begin; row < end; ++row) {
      for (Index j = 0; j < kStrip; ++j) {
        term(row * c + column + j, column + j, a[j], b[j]);
      }
    }
  } else {
    for (Index row = begin; row < end; ++row) {
      for (Index j = 0; j < width; ++j) {
        term(row * c + column + j, column + j, a[j], b[j]);
      }
    }
  }
  for (Index j = 0; j < width; ++j) {
    sum_a[column + j] += static_cast<double>(a[j]);
    sum_b[column + j] += static_cast<double>(b[j]);
  }
}

void shifted_moments(Index rows, Index c, const float* __restrict x, const float* __restrict shift,
                     double* __restrict sum, double* __restrict squares) {
  for_each_strip(rows, c, [&](Index begin, Index end, Index column, Index width) {
    strip_sums(begin, end, c, column, width, sum, squares,
               [&](Index i, Index channel, float& a, float& b) {
                 const float d = x[i] - shift[channel];
                 a += d;
                 b += d * d;
               });
  });
}

void gradient_moments(Index rows, Index c, const float* __restrict x, const float* __restrict y,
                      const float* __restrict dy, const float* __restrict mean,
                      double* __restrict sum_dy, double* __restrict sum_dy_x) {
  for_each_strip(rows, c, [&](Index begin, Index end, Index column, Index width) {
    if (y != nullptr) {
      strip_sums(begin, end, c, column, width, sum_dy, sum_dy_x,
                 [&](Index i, Index channel, float& a, float& b) {
                   const float g = y[i] > 0 ? dy[i] : 0.0F;
                   a += g;
                   b += g * (x[i] - mean[channel]);
                 });
    } else {
      strip_sums(begin, end, c, column, width, sum_dy, sum_dy_x,
                 [&](Index i, Index channel, float& a, float& b) {
                   a += dy[i];
                   b += dy[i] * (x[i] - mean[channel]);
                 });
    }
  });
}

template <bool relu, bool residual>
void normalise_rows(Index rows, Index c, const float* __restrict x, const float* __restrict mean,
                    const float* __restrict scale, const float* __restrict beta,
                    const float* __restrict r, float* __restrict y) {
  for (Index row = 0; row < rows; ++row) {
    const Index base = row * c;
    for (Index j = 0; j < c; ++j) {
      float value = (x[base + j] - mean[j]) * scale[j] + beta[j];
      if (residual) {
        value += r[base + j];
      }
      if (relu) {
        value = value <= 0 ? 0.0F : value;
      }
      y[base + j] = value;
    }
  }
}

void normalise(Index rows, Index c, bool relu, const float* x, const float* mean,
               const float* scale, const float* beta, const float* residual, float* y) {
  if (relu) {
    residual != nullptr ? normalise_rows<true, true>(rows, c, x, mean, scale, beta, residual, y)
                        : normalise_rows<true, false>(rows, c, x, mean, scale, beta, residual, y);
  } else {
    residual != nullptr ? normalise_rows<false, true>(rows, c, x, mean, scale, beta, residual, y)
                        : normalise_rows<false, false>(rows, c, x, mean, scale, beta, residual, y);
  }
}

template <bool relu, bool residual>
void normalise_backward_rows(Index rows, Index c, const float* __restrict x,
                             const float* __restrict y, const float* __restrict dy,
                             const float* __restrict mean, const float* __restrict scale,
                             const float* __restrict slope, const float* __restrict offset,
                             float* __restrict dx, float* __restrict dresidual) {
  for (Index row = 0; row < rows; ++row) {
    const Index base = row * c;
    for (Index j = 0; j < c; ++j) {
      float g = dy[base + j];
      if (relu) {
        g = y[base + j] > 0 ? g : 0.0F;
      }
      if (residual) {
        dresidual[base + j] = g;
      }
      dx[base + j] = scale[j] * g + slope[j] * (x[base + j] - mean[j]) + offset[j];
    }
  }
}

void normalise_backward(Index rows, Index c, const float* x, const float* y, const float* dy,
                        const float* mean, const float* scale, const float* slope,
                        const float* offset, float* dx, float* dresidual) {
  const auto rows_loop = y != nullptr
                             ? (dresidual != nullptr ? normalise_backward_rows<true, true>
                                                     : normalise_backward_rows<true, false>)
                             : (dresidual != nullptr ? normalise_backward_rows<false, true>
                                                     : normalise_backward_rows<false, false>);
  rows_loop(rows, c, x, y, dy, mean, scale, slope, offset, dx, dresidual);
}

void column_sums(Index rows, Index c, const float* __restrict x, double* __restrict sum) {
  for (Index row = 0; row < rows; ++row) {
    for (Index j = 0; j < c; ++j) {
      sum[j] += static_cast<double>(x[row * c + j]);
    }
  }
}

void fold_maximum(Index c, const float* __restrict x, std::int32_t number, float* __restrict best,
                  std::int32_t* __restrict tap) {
  for (Index j = 0; j < c; ++j) {
    // A NaN wins over every number and nothing wins over a NaN.
    const bool wins = !(x[j] <= best[j]) && best[j] == best[j];
    best[j] = wins ? x[j] : best[j];
    tap[j] = wins ? number : tap[j];
  }
}

void finish_maximum(Index c, bool relu, const float* __restrict best,
                    const std::int32_t* __restrict best_tap, float* __restrict y,
                    std::uint8_t* __restrict tap) {
  if (relu) {
    for (Index j = 0; j < c; ++j) {
      y[j] = best[j] <= 0 ? 0.0F : best[j];
      tap[j] = best[j] <= 0 ? std::uint8_t{255} : static_cast<std::uint8_t>(best_tap[j]);
    }
  } else {
    for (Index j = 0; j < c; ++j) {
      y[j] = best[j];
      tap[j] = static_cast<std::uint8_t>(best_tap[j]);
    }
  }
}

void scatter_maximum(Index c, std::uint8_t number, bool accumulate, const float* __restrict dy,
                     const std::uint8_t* __restrict tap, float* __restrict dx) {
  if (accumulate) {
    for (Index j = 0; j < c; ++j) {
      dx[j] += tap[j] == number ? dy[j] : 0.0F;
    }
  } else {
    for (Index j = 0; j < c; ++j) {
      dx[j] = tap[j] == number ? dy[j] : 0.0F;
    }
  }
}

}  // namespace

const Loops& RINGGRAD_LOOPS() {
  static constexpr Loops kLoops = {relu_forward,   relu_backward,    add,
                                   sgd_step,       image_to_float,   shifted_moments,
                                   normalise,      gradient_moments, normalise_backward,
                                   column_sums,    fold_maximum,     finish_maximum,
                                   scatter_maximum};
  return kLoops;
}

}  // namespace ringgrad::kernels::cpu
