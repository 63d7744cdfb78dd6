// Compiled with -O3: these loops run at the speed of memory once they are vectorised.
#include "comm/reduction.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>

#include "runtime/error.h"
#include "runtime/half.h"

namespace ringgrad::comm {
namespace {

// Halves are added as floats and rounded after each addition: what travels between ranks is a half.
template <class T>
struct Arithmetic {
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};
template <>
struct Arithmetic<Half> {
  static float load(Half value) { return to_float(value); }
  static Half store(float value) { return to_half(value); }
};
template <>
struct Arithmetic<BFloat16> {
  static float load(BFloat16 value) { return to_float(value); }
  static BFloat16 store(float value) { return to_bfloat16(value); }
};

template <ReduceOp op, class V>
V applied(V earlier, V later) {
  if constexpr (op == ReduceOp::min) {
    return std::min(earlier, later);
  } else if constexpr (op == ReduceOp::max) {
    return std::max(earlier, later);
  } else if constexpr (std::is_integral_v<V>) {  // wraps, as two's complement does
    return static_cast<V>(static_cast<std::uint64_t>(earlier) + static_cast<std::uint64_t>(later));
  } else {
    return earlier + later;
  }
}

template <class T, ReduceOp op>
void combine(void* out, const void* earlier, const void* later, std::int64_t n) {
  using A = Arithmetic<T>;
  T* result = static_cast<T*>(out);
  const T* a = static_cast<const T*>(earlier);
  const T* b = static_cast<const T*>(later);
#pragma omp simd  // out may be one of the inputs, element for element
  for (std::int64_t i = 0; i < n; ++i) {
    result[i] = A::store(applied<op>(A::load(a[i]), A::load(b[i])));
  }
}

template <class T>
void divide(void* data, std::int64_t n, int ranks) {
  using A = Arithmetic<T>;
  T* values = static_cast<T*>(data);
  const auto divisor = static_cast<decltype(A::load(T{}))>(ranks);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    values[i] = A::store(A::load(values[i]) / divisor);
  }
}

using Combine = void (*)(void*, const void*, const void*, std::int64_t);

template <class T>
Combine combine_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::min:
      return combine<T, ReduceOp::min>;
    case ReduceOp::max:
      return combine<T, ReduceOp::max>;
    case ReduceOp::sum:
    case ReduceOp::average:
      break;
  }
  return combine<T, ReduceOp::sum>;
}

}  // namespace

const char* name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::average:
      return "average";
    case ReduceOp::min:
      return "min";
    case ReduceOp::max:
      return "max";
  }
  return "?";
}

Reduction::Reduction(DType dtype, ReduceOp op, int ranks) : ranks_(ranks) {
  const bool average = op == ReduceOp::average;
  switch (dtype) {
    case DType::f32:
      combine_ = combine_of<float>(op);
      finish_ = average ? divide<float> : nullptr;
      return;
    case DType::f64:
      combine_ = combine_of<double>(op);
      finish_ = average ? divide<double> : nullptr;
      return;
    case DType::f16:
      combine_ = combine_of<Half>(op);
      finish_ = average ? divide<Half> : nullptr;
      return;
    case DType::bf16:
      combine_ = combine_of<BFloat16>(op);
      finish_ = average ? divide<BFloat16> : nullptr;
      return;
    case DType::i64:
      combine_ = combine_of<std::int64_t>(op);
      break;
    case DType::u8:
      combine_ = combine_of<std::uint8_t>(op);
      break;
    default:
      throw Error(concat("no reduction of ", ringgrad::name_of(dtype)));
  }
  RINGGRAD_CHECK(!average, "an average of integers (", ringgrad::name_of(dtype),
                 ") is not defined; reduce their sum");
}

float largest_magnitude(const float* x, std::int64_t n) {
  float largest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const float magnitude = std::fabs(x[i]);
    largest = magnitude > largest || std::isnan(magnitude) ? magnitude : largest;
  }
  return largest;
}

void to_halves(Half* to, const float* from, float scale, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    to[i] = to_half(from[i] * scale);
  }
}

void from_halves(float* to, const Half* from, float scale, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    to[i] = to_float(from[i]) * scale;
  }
}

}  // namespace ringgrad::comm
