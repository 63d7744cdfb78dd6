// Element types and their names, as safetensors and NumPy spell them in small letters.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/error.h"
#include "runtime/half.h"

namespace ringgrad {

enum class DType { f32, f64, f16, bf16, i64, i32, u8 };

constexpr std::size_t size_of(DType type) {
  switch (type) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::u8:
      return 1;
  }
  return 0;
}

constexpr const char* name_of(DType type) {
  switch (type) {
    case DType::f32:
      return "f32";
    case DType::f64:
      return "f64";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
    case DType::i64:
      return "i64";
    case DType::i32:
      return "i32";
    case DType::u8:
      return "u8";
  }
  return "?";
}

template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::f32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::f64;
}
template <>
constexpr DType dtype_of<Half>() {
  return DType::f16;
}
template <>
constexpr DType dtype_of<BFloat16>() {
  return DType::bf16;
}
template <>
constexpr DType dtype_of<std::int64_t>() {
  return DType::i64;
}
template <>
constexpr DType dtype_of<std::int32_t>() {
  return DType::i32;
}
template <>
constexpr DType dtype_of<std::uint8_t>() {
  return DType::u8;
}

// Calls f(T{}) with the C++ type of a floating dtype that networks compute in.
template <class F>
decltype(auto) dispatch_floating(DType type, F&& f) {
  switch (type) {
    case DType::f32:
      return f(float{});
    case DType::f64:
      return f(double{});
    default:
      throw Error(concat("no network computes in ", name_of(type), "; expected f32 or f64"));
  }
}

}  // namespace ringgrad
