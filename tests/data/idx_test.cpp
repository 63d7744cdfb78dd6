#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>

#include "data/dataset.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace ringgrad::test {
namespace {

std::string big_endian(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

std::string images(std::uint32_t n, std::uint32_t h, std::uint32_t w) {
  std::string file = std::string("\0\0\x08\x03", 4) + big_endian(n) + big_endian(h) + big_endian(w);
  for (std::uint32_t i = 0; i < n * h * w; ++i) {
    file += static_cast<char>(i);
  }
  return file;
}

std::string labels(const std::string& values) {
  return std::string("\0\0\x08\x01", 4) + big_endian(static_cast<std::uint32_t>(values.size())) +
         values;
}

class IdxTest : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }
  std::unique_ptr<data::Dataset> open() {
    return data::open_dataset("idx:" + folder_.path().string(), data::Split::train);
  }
  std::string open_error() {
    return error_of([&] { open(); });
  }
  TemporaryFolder folder_;
};

TEST_F(IdxTest, PadsTo32AndRepeatsTheChannel) {
  write("train-images-idx3-ubyte", images(2, 28, 28));
  write("train-labels-idx1-ubyte", labels({3, 9}));
  const auto dataset = open();
  EXPECT_EQ(dataset->size(), 2);
  EXPECT_EQ(dataset->label(1), 9);
  EXPECT_EQ(dataset->classes().size(), 10U);
  const data::Image image = dataset->image(1);
  EXPECT_EQ(image.height, 32);
  EXPECT_EQ(image.width, 32);
  EXPECT_EQ(image.at(1, 5)[0], 0);
  EXPECT_EQ(image.at(2, 2)[0], static_cast<std::uint8_t>(784));
  EXPECT_EQ(image.at(2, 3)[2], static_cast<std::uint8_t>(785));
  EXPECT_EQ(image.at(29, 29)[1], static_cast<std::uint8_t>(2 * 784 - 1));
}

TEST_F(IdxTest, ReadsGz) {
  for (const auto& [name, content] : {std::pair{"train-images-idx3-ubyte.gz", images(3, 32, 32)},
                                      std::pair{"train-labels-idx1-ubyte.gz", labels({0, 1, 2})}}) {
    const gzFile file = gzopen((folder_ / name).c_str(), "wb");
    gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
    gzclose(file);
  }
  EXPECT_EQ(open()->image(2).at(0, 0)[0], static_cast<std::uint8_t>(2048));
  // Cut within the compressed data.
  std::filesystem::resize_file(folder_ / "train-images-idx3-ubyte.gz", 40);
  EXPECT_TRUE(contains(open_error(), "train-images-idx3-ubyte.gz"));
}

TEST_F(IdxTest, RefusesWhatIsNotRight) {
  EXPECT_TRUE(contains(open_error(), "has neither train-labels-idx1-ubyte nor"));
  write("train-labels-idx1-ubyte", labels({3, 9}));
  const auto with_images = [&](const std::string& content) {
    write("train-images-idx3-ubyte", content);
    return open_error();
  };
  EXPECT_TRUE(contains(with_images(labels({3, 9})), "not an IDX file"));
  EXPECT_TRUE(contains(with_images("ab"), "not an IDX file"));
  EXPECT_TRUE(contains(with_images(images(3, 28, 28)), "has 3 images"));
  EXPECT_TRUE(contains(with_images(images(2, 28, 28) + "x"), "goes on after"));
  const std::string cut = images(2, 28, 28).substr(0, 1000);
  EXPECT_TRUE(contains(with_images(cut), "holds 984 bytes of data; its header says 1568"));
  const std::string huge = std::string("\0\0\x08\x03", 4) + big_endian(0xffffffff) +
                           big_endian(0xffffffff) + big_endian(0xffffffff);
  EXPECT_TRUE(contains(with_images(huge), "claims more than"));
}

}  // namespace
}  // namespace ringgrad::test
