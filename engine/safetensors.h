// The safetensors format: 8 bytes little-endian header length, a JSON header, the tensors' bytes.
// Source: https://huggingface.co/docs/safetensors. A file is checked whole before memory is taken
// for it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runtime/dtype.h"

namespace ringgrad {

// A tensor on the host, any rank, row-major.
struct HostTensor {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::string bytes;

  std::int64_t count() const;
  std::string shape_text() const;
  // Elements as T, converted from any floating or integer type.
  template <class T>
  std::vector<T> values() const;
};

struct Safetensors {
  std::map<std::string, HostTensor> tensors;
  std::map<std::string, std::string> metadata;
};

// Error with the file's name and what is wrong: not this format, header length, offsets, sizes,
// types, keys.
Safetensors read_safetensors(const std::filesystem::path& path);
// Written whole (runtime/file.h); tensors in the order of their names.
void write_safetensors(const std::filesystem::path& path, const Safetensors& content);

}  // namespace ringgrad
