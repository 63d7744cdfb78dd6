// Convolution by its definition.
#include <algorithm>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/reference/operations.h"

namespace ringgrad::kernels::reference {
namespace {

// Calls f(offset of a pixel's channels in x, offset in y, offset in the filter) for every (n, p, q,
// r, s) whose input pixel is inside the image; offsets are in elements, the filter's without k.
template <class F>
void for_each_tap(const Conv2dShape& a, F&& f) {
  for (Index n = 0; n < a.n; ++n) {
    for (Index p = 0; p < a.p(); ++p) {
      for (Index q = 0; q < a.q(); ++q) {
        for (Index r = 0; r < a.r; ++r) {
          for (Index s = 0; s < a.s; ++s) {
            const Index h = p * a.stride + r - a.pad;
            const Index w = q * a.stride + s - a.pad;
            if (h >= 0 && h < a.h && w >= 0 && w < a.w) {
              f(((n * a.h + h) * a.w + w) * a.c, ((n * a.p() + p) * a.q() + q) * a.k,
                (r * a.s + s) * a.c);
            }
          }
        }
      }
    }
  }
}

template <class T>
void conv2d_forward(Context&, const Conv2dForward<T>& a) {
  const Conv2dShape& d = a.shape;
  std::vector<double> y(static_cast<std::size_t>(d.n * d.p() * d.q() * d.k));
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] = a.bias != nullptr ? static_cast<double>(a.bias[i % static_cast<std::size_t>(d.k)]) : 0.0;
  }
  for_each_tap(d, [&](Index x, Index out, Index filter) {
    for (Index k = 0; k < d.k; ++k) {
      const T* w = a.w + k * d.r * d.s * d.c + filter;
      double sum = 0;
      for (Index c = 0; c < d.c; ++c) {
        sum += static_cast<double>(a.x[x + c]) * static_cast<double>(w[c]);
      }
      y[static_cast<std::size_t>(out + k)] += sum;
    }
  });
  std::transform(y.begin(), y.end(), a.y, [](double v) { return static_cast<T>(v); });
}

template <class T>
void conv2d_backward_data(Context&, const Conv2dBackwardData<T>& a) {
  const Conv2dShape& d = a.shape;
  std::vector<double> dx(static_cast<std::size_t>(d.n * d.h * d.w * d.c));
  for_each_tap(d, [&](Index x, Index out, Index filter) {
    for (Index k = 0; k < d.k; ++k) {
      const T* w = a.w + k * d.r * d.s * d.c + filter;
      const auto dy = static_cast<double>(a.dy[out + k]);
      for (Index c = 0; c < d.c; ++c) {
        dx[static_cast<std::size_t>(x + c)] += dy * static_cast<double>(w[c]);
      }
    }
  });
  std::transform(dx.begin(), dx.end(), a.dx, [](double v) { return static_cast<T>(v); });
}

template <class T>
void conv2d_backward_weights(Context&, const Conv2dBackwardWeights<T>& a) {
  const Conv2dShape& d = a.shape;
  const Index filter_size = d.r * d.s * d.c;
  const bool add = a.mode == GradMode::accumulate;
  std::vector<double> dw(static_cast<std::size_t>(d.k * filter_size));
  for_each_tap(d, [&](Index x, Index out, Index filter) {
    for (Index k = 0; k < d.k; ++k) {
      const auto dy = static_cast<double>(a.dy[out + k]);
      for (Index c = 0; c < d.c; ++c) {
        dw[static_cast<std::size_t>(k * filter_size + filter + c)] +=
            dy * static_cast<double>(a.x[x + c]);
      }
    }
  });
  for (std::size_t i = 0; i < dw.size(); ++i) {
    a.dw[i] = static_cast<T>(dw[i] + (add ? static_cast<double>(a.dw[i]) : 0.0));
  }
  if (a.dbias != nullptr) {
    for (Index k = 0; k < d.k; ++k) {
      double sum = add ? static_cast<double>(a.dbias[k]) : 0.0;
      for (Index row = 0; row < d.n * d.p() * d.q(); ++row) {
        sum += static_cast<double>(a.dy[row * d.k + k]);
      }
      a.dbias[k] = static_cast<T>(sum);
    }
  }
}

template <class T>
void add_for(OperationTable& table) {
  table.add<Conv2dForward<T>, conv2d_forward<T>>();
  table.add<Conv2dBackwardData<T>, conv2d_backward_data<T>>();
  table.add<Conv2dBackwardWeights<T>, conv2d_backward_weights<T>>();
}

}  // namespace

void add_conv2d(OperationTable& table) {
  add_for<float>(table);
  add_for<double>(table);
}

}  // namespace ringgrad::kernels::reference
