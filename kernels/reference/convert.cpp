// Changes of element type and of layout.
#include "kernels/kernels.h"
#include "kernels/reference/operations.h"

namespace ringgrad::kernels::reference {
namespace {

template <class T>
void image_to_float(Context&, const ImageToFloat<T>& a) {
  for (Index i = 0; i < a.pixels * a.c; ++i) {
    const float unit = static_cast<float>(a.x[i]) / 255.0F;
    a.y[i] = static_cast<T>((unit - a.mean[i % a.c]) / a.stddev[i % a.c]);
  }
}

template <class T>
void transpose_images(Context&, const TransposeImages<T>& a) {
  for (Index n = 0; n < a.n; ++n) {
    for (Index i = 0; i < a.hw; ++i) {
      for (Index c = 0; c < a.c; ++c) {
        a.y[(n * a.c + c) * a.hw + i] = a.x[(n * a.hw + i) * a.c + c];
      }
    }
  }
}

Half half_from(float value, Half) {
  return to_half(value);
}
BFloat16 half_from(float value, BFloat16) {
  return to_bfloat16(value);
}

template <class T>
void float_to_half(Context&, const FloatToHalf<T>& a) {
  for (Index i = 0; i < a.n; ++i) {
    a.y[i] = half_from(a.x[i], T{});
  }
}

template <class T>
void half_to_float(Context&, const HalfToFloat<T>& a) {
  for (Index i = 0; i < a.n; ++i) {
    a.y[i] = to_float(a.x[i]);
  }
}

}  // namespace

void add_convert(OperationTable& table) {
  table.add<ImageToFloat<float>, image_to_float<float>>();
  table.add<ImageToFloat<double>, image_to_float<double>>();
  table.add<TransposeImages<float>, transpose_images<float>>();
  table.add<TransposeImages<double>, transpose_images<double>>();
  table.add<FloatToHalf<Half>, float_to_half<Half>>();
  table.add<FloatToHalf<BFloat16>, float_to_half<BFloat16>>();
  table.add<HalfToFloat<Half>, half_to_float<Half>>();
  table.add<HalfToFloat<BFloat16>, half_to_float<BFloat16>>();
}

}  // namespace ringgrad::kernels::reference
