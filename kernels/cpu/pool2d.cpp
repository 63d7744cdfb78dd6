// Pooling: images are cut among the threads, channels are vectorised.
#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/cpu/loops.h"
#include "kernels/cpu/operations.h"
#include "kernels/kernels.h"
#include "runtime/parallel.h"

namespace ringgrad::kernels::cpu {
namespace {

// Calls f(tap number, offset of the pixel in an image's first channel) for the pixels of a window
// that are inside the image.
template <class F>
void for_each_tap(const Pool2dShape& d, Index p, Index q, F&& f) {
  for (Index r = 0; r < d.kernel; ++r) {
    const Index h = p * d.stride + r - d.pad;
    if (h < 0 || h >= d.h) {
      continue;
    }
    for (Index s = 0; s < d.kernel; ++s) {
      const Index w = q * d.stride + s - d.pad;
      if (w >= 0 && w < d.w) {
        f(r * d.kernel + s, (h * d.w + w) * d.c);
      }
    }
  }
}

void max_pool2d_forward(Context& context, const MaxPool2dForward<float>& a) {
  const Pool2dShape& d = a.shape;
  const Index out_rows = d.n * d.p();
  parallel_for(context.threads(), out_rows, 1, [&](int, Index begin, Index end) {
    std::vector<float> best(static_cast<std::size_t>(d.c));
    std::vector<std::int32_t> tap(static_cast<std::size_t>(d.c));
    for (Index row = begin; row < end; ++row) {
      const float* image = a.x + row / d.p() * d.h * d.w * d.c;
      for (Index q = 0; q < d.q(); ++q) {
        const Index out = (row * d.q() + q) * d.c;
        bool first = true;
        for_each_tap(d, row % d.p(), q, [&](Index number, Index pixel) {
          if (first) {  // so that a window of -inf alone has a valid tap
            std::copy(image + pixel, image + pixel + d.c, best.data());
            std::fill(tap.begin(), tap.end(), static_cast<std::int32_t>(number));
            first = false;
          } else {
            loops().fold_maximum(d.c, image + pixel, static_cast<std::int32_t>(number), best.data(),
                                 tap.data());
          }
        });
        loops().finish_maximum(d.c, a.relu, best.data(), tap.data(), a.y + out, a.tap + out);
      }
    }
  });
}

void max_pool2d_backward(Context& context, const MaxPool2dBackward<float>& a) {
  const Pool2dShape& d = a.shape;
  const Index image_size = d.h * d.w * d.c;
  // Windows that tile the image write each pixel once; else pixels start from zero and add up.
  const bool tiles =
      d.kernel == d.stride && d.pad == 0 && d.h % d.kernel == 0 && d.w % d.kernel == 0;
  parallel_for(context.threads(), d.n, 1, [&](int, Index begin, Index end) {
    for (Index n = begin; n < end; ++n) {
      float* image = a.dx + n * image_size;
      if (!tiles) {
        std::fill(image, image + image_size, 0.0F);
      }
      for (Index p = 0; p < d.p(); ++p) {
        for (Index q = 0; q < d.q(); ++q) {
          const Index out = ((n * d.p() + p) * d.q() + q) * d.c;
          for_each_tap(d, p, q, [&](Index number, Index pixel) {
            loops().scatter_maximum(d.c, static_cast<std::uint8_t>(number), !tiles, a.dy + out,
                                    a.tap + out, image + pixel);
          });
        }
      }
    }
  });
}

void global_avg_pool_forward(Context& context, const GlobalAvgPoolForward<float>& a) {
  parallel_for(context.threads(), a.n, 1, [&](int, Index begin, Index end) {
    std::vector<double> sum(static_cast<std::size_t>(a.c));
    for (Index n = begin; n < end; ++n) {
      std::fill(sum.begin(), sum.end(), 0.0);
      loops().column_sums(a.hw, a.c, a.x + n * a.hw * a.c, sum.data());
      for (Index c = 0; c < a.c; ++c) {
        a.y[n * a.c + c] =
            static_cast<float>(sum[static_cast<std::size_t>(c)] / static_cast<double>(a.hw));
      }
    }
  });
}

void global_avg_pool_backward(Context& context, const GlobalAvgPoolBackward<float>& a) {
  parallel_for(context.threads(), a.n, 1, [&](int, Index begin, Index end) {
    for (Index n = begin; n < end; ++n) {
      float* first = a.dx + n * a.hw * a.c;
      for (Index c = 0; c < a.c; ++c) {
        first[c] = a.dy[n * a.c + c] / static_cast<float>(a.hw);
      }
      for (Index i = 1; i < a.hw; ++i) {
        std::copy(first, first + a.c, first + i * a.c);
      }
    }
  });
}

}  // namespace

void add_pool2d(OperationTable& table) {
  table.add<MaxPool2dForward<float>, max_pool2d_forward>();
  table.add<MaxPool2dBackward<float>, max_pool2d_backward>();
  table.add<GlobalAvgPoolForward<float>, global_avg_pool_forward>();
  table.add<GlobalAvgPoolBackward<float>, global_avg_pool_backward>();
}

}  // namespace ringgrad::kernels::cpu
