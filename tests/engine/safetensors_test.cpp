#include "engine/safetensors.h"

#include <gtest/gtest.h>

#include <fstream>

#include "runtime/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace ringgrad::test {
namespace {

std::string with_length(std::uint64_t length, const std::string& rest) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) {
    bytes += static_cast<char>(length >> (8 * i));
  }
  return bytes + rest;
}

std::string file_of(const std::string& header, std::size_t data_bytes) {
  return with_length(header.size(), header + std::string(data_bytes, '\0'));
}

class SafetensorsTest : public testing::Test {
 protected:
  std::string error_for(const std::string& bytes) {
    const auto path = folder_ / "x.safetensors";
    std::ofstream(path, std::ios::binary) << bytes;
    const std::string error = error_of([&] { read_safetensors(path); });
    EXPECT_TRUE(contains(error, path.string()));
    return error;
  }
  TemporaryFolder folder_;
};

TEST_F(SafetensorsTest, RoundTrip) {
  Safetensors content;
  content.tensors["b"] = {DType::f32, {2, 3}, std::string(24, '\1')};
  content.tensors["a.scalar"] = {DType::i64, {}, std::string(8, '\2')};
  content.tensors["empty"] = {DType::f16, {0, 5}, ""};
  content.metadata["key"] = "value \"quoted\"";
  const auto path = folder_ / "x.safetensors";
  write_safetensors(path, content);
  const Safetensors back = read_safetensors(path);
  EXPECT_EQ(back.metadata, content.metadata);
  ASSERT_EQ(back.tensors.size(), 3U);
  for (const auto& [name, tensor] : content.tensors) {
    EXPECT_EQ(back.tensors.at(name).dtype, tensor.dtype);
    EXPECT_EQ(back.tensors.at(name).shape, tensor.shape);
    EXPECT_EQ(back.tensors.at(name).bytes, tensor.bytes);
  }
}

TEST_F(SafetensorsTest, RejectsBrokenHeaders) {
  EXPECT_TRUE(contains(error_for("abc"), "has 3 bytes"));
  EXPECT_TRUE(contains(error_for(""), "has 0 bytes"));
  EXPECT_TRUE(contains(error_for(with_length(0, "")), "claims 0 bytes"));
  EXPECT_TRUE(contains(error_for(with_length(1000, "{}")), "claims 1000 bytes"));
  EXPECT_TRUE(contains(error_for(with_length(~std::uint64_t{0} - 7, "{}")), "claims"));
  EXPECT_TRUE(contains(error_for(with_length(~std::uint64_t{0}, "{}")), "claims"));
  EXPECT_TRUE(contains(error_for(file_of("{]", 0)), "not JSON"));
  EXPECT_TRUE(contains(error_for(file_of("[]", 0)), "not a JSON object"));
  EXPECT_TRUE(contains(error_for("<html>this is a page of some site</html>"), "claims"));
}

TEST_F(SafetensorsTest, RejectsBrokenTensors) {
  const auto one = [](const std::string& dtype, const std::string& shape,
                      const std::string& offsets) {
    return R"({"t":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
           offsets + "}}";
  };
  const auto error = [&](const std::string& header) { return error_for(file_of(header, 8)); };
  EXPECT_TRUE(contains(error(one("F32", "[2]", "[8,0]")), "do not lie within"));
  EXPECT_TRUE(contains(error(one("F32", "[2]", "[4,12]")), "do not lie within"));
  EXPECT_TRUE(contains(error(one("F32", "[3]", "[0,8]")), "take 12 bytes"));
  EXPECT_TRUE(contains(error(one("F99", "[2]", "[0,8]")), "dtype F99"));
  EXPECT_TRUE(contains(error(one("F32", "[-1]", "[0,8]")), "whole numbers"));
  EXPECT_TRUE(contains(error(one("F32", "[2.5]", "[0,8]")), "whole numbers"));
  EXPECT_TRUE(
      contains(error(one("F32", "[4294967296,4294967296,4]", "[0,8]")), "product of its shape"));
  EXPECT_TRUE(contains(error(one("F32", "[2]", "[0]")), "two whole numbers"));
  EXPECT_TRUE(contains(error(R"({"t":5})"), "tensor t"));
  EXPECT_TRUE(contains(
      error(
          R"({"t":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"t":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})"),
      "'t' stands twice"));
  EXPECT_TRUE(contains(
      error(
          R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})"),
      "overlaps"));
  EXPECT_TRUE(contains(error(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})"),
                       "4 bytes before tensor a belong to no tensor"));
  EXPECT_TRUE(contains(error(one("U8", "[4]", "[0,4]")), "4 bytes at the end"));
}

}  // namespace
}  // namespace ringgrad::test
