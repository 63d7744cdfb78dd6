#include "engine/safetensors.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/file.h"
#include "runtime/json_text.h"

namespace ringgrad {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMostHeader = std::uint64_t{100} << 20;

struct TypeName {
  DType dtype;
  const char* name;
};
constexpr TypeName kTypeNames[] = {{DType::f32, "F32"},   {DType::f64, "F64"}, {DType::f16, "F16"},
                                   {DType::bf16, "BF16"}, {DType::i64, "I64"}, {DType::i32, "I32"},
                                   {DType::u8, "U8"}};

const char* file_name_of(DType dtype) {
  for (const TypeName& type : kTypeNames) {
    if (type.dtype == dtype) {
      return type.name;
    }
  }
  return "?";
}

DType dtype_from(const std::string& name) {
  for (const TypeName& type : kTypeNames) {
    if (name == type.name) {
      return type.dtype;
    }
  }
  std::string known;
  for (const TypeName& type : kTypeNames) {
    known += (known.empty() ? "" : ", ") + std::string(type.name);
  }
  throw Error("dtype " + name + " is not read; expected one of " + known);
}

// The header, refused if any object in it names a key twice.
json parsed_header(const std::string& text) {
  std::vector<std::set<std::string>> keys;
  std::string twice;
  const json::parser_callback_t watch = [&](int, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) {
      keys.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == json::parse_event_t::key && !keys.back().insert(value).second) {
      twice = value;
    }
    return true;
  };
  json header;
  try {
    header = json::parse(text, watch);
  } catch (const json::exception& error) {
    throw Error(concat("the header is not JSON (", error.what(), ")"));
  }
  RINGGRAD_CHECK(twice.empty(), "key '", twice, "' stands twice in the header");
  RINGGRAD_CHECK(header.is_object(), "the header is not a JSON object");
  return header;
}

struct Entry {
  std::string name;
  DType dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin, end;
};

Entry parsed_entry(const std::string& name, const json& value, std::uint64_t data_bytes) {
  Entry entry{name, DType::f32, {}, 0, 0};
  try {
    entry.dtype = dtype_from(value.at("dtype").get<std::string>());
    for (const json& extent : value.at("shape")) {
      RINGGRAD_CHECK(extent.is_number_unsigned() &&
                         extent.get<std::uint64_t>() <=
                             static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()),
                     "shape holds ", extent.dump(), "; expected whole numbers from 0");
      entry.shape.push_back(extent.get<std::int64_t>());
    }
    const json& offsets = value.at("data_offsets");
    RINGGRAD_CHECK(offsets.is_array() && offsets.size() == 2 && offsets[0].is_number_unsigned() &&
                       offsets[1].is_number_unsigned(),
                   "data_offsets is ", offsets.dump(), "; expected two whole numbers");
    entry.begin = offsets[0].get<std::uint64_t>();
    entry.end = offsets[1].get<std::uint64_t>();
  } catch (const json::exception& error) {
    throw Error(concat("tensor ", name, ": ", error.what()));
  } catch (const Error& error) {
    throw Error(concat("tensor ", name, ": ", error.what()));
  }
  RINGGRAD_CHECK(entry.begin <= entry.end && entry.end <= data_bytes, "tensor ", name, ": offsets ",
                 entry.begin, " to ", entry.end, " do not lie within the ", data_bytes,
                 " bytes of data");
  std::uint64_t bytes = size_of(entry.dtype);
  for (const std::int64_t extent : entry.shape) {
    RINGGRAD_CHECK(!__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes),
                   "tensor ", name, ": the product of its shape overflows");
  }
  RINGGRAD_CHECK(bytes == entry.end - entry.begin, "tensor ", name, ": its shape and dtype take ",
                 bytes, " bytes, its offsets give it ", entry.end - entry.begin);
  return entry;
}

// The tensors must cover the data without overlap or gap.
void check_cover(std::vector<Entry> entries, std::uint64_t data_bytes) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t at = 0;
  for (const Entry& entry : entries) {
    RINGGRAD_CHECK(entry.begin >= at, "tensor ", entry.name, " overlaps the one before it");
    RINGGRAD_CHECK(entry.begin == at, entry.begin - at, " bytes before tensor ", entry.name,
                   " belong to no tensor");
    at = entry.end;
  }
  RINGGRAD_CHECK(at == data_bytes, data_bytes - at, " bytes at the end belong to no tensor");
}

Safetensors read_checked(std::ifstream& file, std::uint64_t file_bytes) {
  RINGGRAD_CHECK(file_bytes >= 8, "the file has ", file_bytes,
                 " bytes; a safetensors file has at least 8");
  unsigned char raw[8] = {};
  file.read(reinterpret_cast<char*>(raw), sizeof raw);
  std::uint64_t header_bytes = 0;
  for (int i = 7; i >= 0; --i) {
    header_bytes = header_bytes << 8 | raw[i];
  }
  RINGGRAD_CHECK(header_bytes >= 2 && header_bytes <= kMostHeader && header_bytes <= file_bytes - 8,
                 "the header claims ", header_bytes, " bytes of the file's ", file_bytes,
                 "; this is no safetensors file, or it was cut short");
  std::string text(header_bytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  RINGGRAD_CHECK(file.good(), "reading failed within the header");
  const json header = parsed_header(text);
  const std::uint64_t data_bytes = file_bytes - 8 - header_bytes;
  Safetensors content;
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name != "__metadata__") {
      entries.push_back(parsed_entry(name, value, data_bytes));
      continue;
    }
    RINGGRAD_CHECK(value.is_object(), "__metadata__ is not an object");
    for (const auto& [key, word] : value.items()) {
      RINGGRAD_CHECK(word.is_string(), "__metadata__ entry ", key, " is not a string");
      content.metadata[key] = word.get<std::string>();
    }
  }
  check_cover(entries, data_bytes);
  for (const Entry& entry : entries) {
    HostTensor& tensor = content.tensors[entry.name];
    tensor.dtype = entry.dtype;
    tensor.shape = entry.shape;
    tensor.bytes.resize(entry.end - entry.begin);
    file.seekg(static_cast<std::streamoff>(8 + header_bytes + entry.begin));
    file.read(tensor.bytes.data(), static_cast<std::streamsize>(tensor.bytes.size()));
  }
  RINGGRAD_CHECK(file.good(), "reading failed before the end");
  return content;
}

template <class T, class From>
T converted(From value) {
  if constexpr (std::is_same_v<From, Half> || std::is_same_v<From, BFloat16>) {
    return static_cast<T>(to_float(value));
  } else {
    return static_cast<T>(value);
  }
}

template <class T, class From>
std::vector<T> converted_all(const std::string& bytes) {
  std::vector<T> out(bytes.size() / sizeof(From));
  for (std::size_t i = 0; i < out.size(); ++i) {
    From value;
    std::memcpy(&value, bytes.data() + i * sizeof(From), sizeof(From));
    out[i] = converted<T>(value);
  }
  return out;
}

}  // namespace

std::int64_t HostTensor::count() const {
  std::int64_t n = 1;
  for (const std::int64_t extent : shape) {
    n *= extent;
  }
  return n;
}

std::string HostTensor::shape_text() const {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + ")";
}

template <class T>
std::vector<T> HostTensor::values() const {
  switch (dtype) {
    case DType::f32:
      return converted_all<T, float>(bytes);
    case DType::f64:
      return converted_all<T, double>(bytes);
    case DType::f16:
      return converted_all<T, Half>(bytes);
    case DType::bf16:
      return converted_all<T, BFloat16>(bytes);
    case DType::i64:
      return converted_all<T, std::int64_t>(bytes);
    case DType::i32:
      return converted_all<T, std::int32_t>(bytes);
    case DType::u8:
      return converted_all<T, std::uint8_t>(bytes);
  }
  return {};
}
template std::vector<float> HostTensor::values<float>() const;
template std::vector<double> HostTensor::values<double>() const;
template std::vector<std::int64_t> HostTensor::values<std::int64_t>() const;

Safetensors read_safetensors(const std::filesystem::path& path) {
  RINGGRAD_CHECK(!std::filesystem::is_directory(path), path.string(),
                 ": is a folder; expected a .safetensors file");
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  RINGGRAD_CHECK(file.good(), "cannot read ", system_error(path, errno));
  const auto bytes = static_cast<std::uint64_t>(file.tellg());
  file.seekg(0);
  try {
    return read_checked(file, bytes);
  } catch (const Error& error) {
    throw Error(concat(path.string(), ": ", error.what()));
  }
}

void write_safetensors(const std::filesystem::path& path, const Safetensors& content) {
  json header = json::object();
  if (!content.metadata.empty()) {
    header["__metadata__"] = content.metadata;
  }
  std::uint64_t at = 0;
  for (const auto& [name, tensor] : content.tensors) {
    RINGGRAD_ASSERT(tensor.bytes.size() ==
                    static_cast<std::size_t>(tensor.count()) * size_of(tensor.dtype));
    header[name] = {{"dtype", file_name_of(tensor.dtype)},
                    {"shape", tensor.shape},
                    {"data_offsets", {at, at + tensor.bytes.size()}}};
    at += tensor.bytes.size();
  }
  // Names that are not UTF-8 are written with replacement characters rather than refused.
  std::string text = json_text(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // tensors start at a multiple of 8
  unsigned char raw[8];
  for (int i = 0; i < 8; ++i) {
    raw[i] = static_cast<unsigned char>(text.size() >> (8 * i));
  }
  AtomicFile file(path);
  file.write(raw, sizeof raw);
  file.write(text.data(), text.size());
  for (const auto& [name, tensor] : content.tensors) {
    file.write(tensor.bytes.data(), tensor.bytes.size());
  }
  file.commit();
}

}  // namespace ringgrad
