// Which taps of a filter ever meet the image: on small maps the others see padding alone, so that
// their products are zero and their gradients too. Of a 3x3 filter with padding 1 on a 1x1 map (the
// last stage of ResNet-18 on 32x32 images) only the tap in the middle counts.
#pragma once

#include <algorithm>

#include "kernels/kernels.h"

namespace ringgrad::kernels {

struct LiveTaps {
  Index first, count;
};

// Along one axis with `in` inputs, `out` outputs and `taps` taps: the smallest range that holds
// each tap for which o * stride + tap - pad lies within the inputs for some output o; all if there
// is none.
inline LiveTaps live_taps(Index in, Index out, Index taps, Index stride, Index pad) {
  Index first = taps, last = -1;
  for (Index o = 0; o < out; ++o) {
    const Index at = pad - o * stride;  // the tap that meets input 0
    if (at < taps && at + in > 0) {
      first = std::min(first, std::max<Index>(0, at));
      last = std::max(last, std::min(taps, at + in) - 1);
    }
  }
  return last < 0 ? LiveTaps{0, taps} : LiveTaps{first, last - first + 1};
}

}  // namespace ringgrad::kernels
