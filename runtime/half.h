// The two 16-bit floating formats, as storage: IEEE binary16 and bfloat16 (the upper half of a
// float). Conversions round to nearest even; NaN stays NaN, overflow becomes infinity, subnormals
// are kept.
#pragma once

#include <cstdint>
#include <cstring>

#include "runtime/on_both_sides.h"

namespace ringgrad {

struct Half {
  std::uint16_t bits;
};

struct BFloat16 {
  std::uint16_t bits;
};

RINGGRAD_HOST_DEVICE inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

RINGGRAD_HOST_DEVICE inline float float_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

RINGGRAD_HOST_DEVICE inline float to_float(BFloat16 value) {
  return float_of(static_cast<std::uint32_t>(value.bits) << 16);
}

RINGGRAD_HOST_DEVICE inline BFloat16 to_bfloat16(float value) {
  const std::uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) {  // NaN: keep its sign, make it quiet
    return {static_cast<std::uint16_t>((bits >> 16) | 0x40U)};
  }
  return {static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}

RINGGRAD_HOST_DEVICE inline float to_float(Half value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000U) << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1fU;
  const std::uint32_t mantissa = value.bits & 0x3ffU;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, exact in float
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return float_of(bits_of(magnitude) | sign);
  }
  if (exponent == 31) {
    return float_of(sign | 0x7f800000U | (mantissa << 13));
  }
  return float_of(sign | ((exponent + 112U) << 23) | (mantissa << 13));
}

RINGGRAD_HOST_DEVICE inline Half to_half(float value) {
  const std::uint32_t bits = bits_of(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) {
    return {static_cast<std::uint16_t>(sign | 0x7e00U)};
  }
  if (magnitude >= 0x477ff000U) {  // rounds to 65520 or more: infinity
    return {static_cast<std::uint16_t>(sign | 0x7c00U)};
  }
  if (magnitude < 0x38800000U) {  // below 2^-14: subnormal
    // Adding 0.5 places the value so that its last kept bit is the float's last bit: the sum rounds
    // it.
    const float shifted = float_of(magnitude) + 0.5F;
    return {static_cast<std::uint16_t>(sign | (bits_of(shifted) - 0x3f000000U))};
  }
  const std::uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U) - (112U << 23);
  return {static_cast<std::uint16_t>(sign | (rounded >> 13))};
}

}  // namespace ringgrad
