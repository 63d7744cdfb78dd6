// Images to floats, and the channel-major order that flatten emits.
#include <algorithm>

#include "kernels/cpu/loops.h"
#include "kernels/cpu/operations.h"
#include "kernels/kernels.h"
#include "runtime/parallel.h"

namespace ringgrad::kernels::cpu {
namespace {

void image_to_float(Context& context, const ImageToFloat<float>& a) {
  parallel_for(context.threads(), a.pixels, 4096, [&](int, Index begin, Index end) {
    loops().image_to_float(end - begin, a.c, a.x + begin * a.c, a.mean, a.stddev,
                           a.y + begin * a.c);
  });
}

// In tiles of 16x16, so that both sides use whole cache lines.
void transpose_images(Context& context, const TransposeImages<float>& a) {
  constexpr Index kTile = 16;
  parallel_for(context.threads(), a.n, 1, [&](int, Index begin, Index end) {
    for (Index n = begin; n < end; ++n) {
      const float* x = a.x + n * a.hw * a.c;
      float* y = a.y + n * a.hw * a.c;
      for (Index i0 = 0; i0 < a.hw; i0 += kTile) {
        for (Index c0 = 0; c0 < a.c; c0 += kTile) {
          for (Index c = c0; c < std::min(c0 + kTile, a.c); ++c) {
            for (Index i = i0; i < std::min(i0 + kTile, a.hw); ++i) {
              y[c * a.hw + i] = x[i * a.c + c];
            }
          }
        }
      }
    }
  });
}

}  // namespace

void add_convert(OperationTable& table) {
  table.add<ImageToFloat<float>, image_to_float>();
  table.add<TransposeImages<float>, transpose_images>();
}

}  // namespace ringgrad::kernels::cpu
