// Max-pooling over windows, average over the whole image.
#include <algorithm>
#include <cmath>

#include "kernels/kernels.h"
#include "kernels/reference/operations.h"

namespace ringgrad::kernels::reference {
namespace {

template <class T>
void max_pool2d_forward(Context&, const MaxPool2dForward<T>& a) {
  const Pool2dShape& d = a.shape;
  Index out = 0;
  for (Index n = 0; n < d.n; ++n) {
    for (Index p = 0; p < d.p(); ++p) {
      for (Index q = 0; q < d.q(); ++q) {
        for (Index c = 0; c < d.c; ++c, ++out) {
          T best = 0;
          int tap = -1;
          for (Index i = 0; i < d.kernel * d.kernel; ++i) {
            const Index h = p * d.stride + i / d.kernel - d.pad;
            const Index w = q * d.stride + i % d.kernel - d.pad;
            if (h < 0 || h >= d.h || w < 0 || w >= d.w) {
              continue;
            }
            const T value = a.x[((n * d.h + h) * d.w + w) * d.c + c];
            if (tap < 0 || value > best || (std::isnan(value) && !std::isnan(best))) {
              best = value;
              tap = static_cast<int>(i);
            }
          }
          if (a.relu && best <= 0) {
            best = 0;
            tap = 255;
          }
          a.y[out] = best;
          a.tap[out] = static_cast<std::uint8_t>(tap);
        }
      }
    }
  }
}

template <class T>
void max_pool2d_backward(Context&, const MaxPool2dBackward<T>& a) {
  const Pool2dShape& d = a.shape;
  std::fill(a.dx, a.dx + d.n * d.h * d.w * d.c, T{0});
  Index out = 0;
  for (Index n = 0; n < d.n; ++n) {
    for (Index p = 0; p < d.p(); ++p) {
      for (Index q = 0; q < d.q(); ++q) {
        for (Index c = 0; c < d.c; ++c, ++out) {
          if (a.tap[out] == 255) {
            continue;
          }
          const Index h = p * d.stride + a.tap[out] / d.kernel - d.pad;
          const Index w = q * d.stride + a.tap[out] % d.kernel - d.pad;
          a.dx[((n * d.h + h) * d.w + w) * d.c + c] += a.dy[out];
        }
      }
    }
  }
}

template <class T>
void global_avg_pool_forward(Context&, const GlobalAvgPoolForward<T>& a) {
  for (Index n = 0; n < a.n; ++n) {
    for (Index c = 0; c < a.c; ++c) {
      double sum = 0;
      for (Index i = 0; i < a.hw; ++i) {
        sum += static_cast<double>(a.x[(n * a.hw + i) * a.c + c]);
      }
      a.y[n * a.c + c] = static_cast<T>(sum / static_cast<double>(a.hw));
    }
  }
}

template <class T>
void global_avg_pool_backward(Context&, const GlobalAvgPoolBackward<T>& a) {
  for (Index n = 0; n < a.n; ++n) {
    for (Index i = 0; i < a.hw; ++i) {
      for (Index c = 0; c < a.c; ++c) {
        a.dx[(n * a.hw + i) * a.c + c] =
            static_cast<T>(static_cast<double>(a.dy[n * a.c + c]) / static_cast<double>(a.hw));
      }
    }
  }
}

template <class T>
void add_for(OperationTable& table) {
  table.add<MaxPool2dForward<T>, max_pool2d_forward<T>>();
  table.add<MaxPool2dBackward<T>, max_pool2d_backward<T>>();
  table.add<GlobalAvgPoolForward<T>, global_avg_pool_forward<T>>();
  table.add<GlobalAvgPoolBackward<T>, global_avg_pool_backward<T>>();
}

}  // namespace

void add_pool2d(OperationTable& table) {
  add_for<float>(table);
  add_for<double>(table);
}

}  // namespace ringgrad::kernels::reference
