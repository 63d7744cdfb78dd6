#include "data/resize.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/transform.h"
#include "runtime/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"

namespace ringgrad::test {
namespace {

using data::Image;

Image numbered(int height, int width) {
  Image image{height, width, {}};
  for (int i = 0; i < height * width * 3; ++i) {
    image.pixels.push_back(static_cast<std::uint8_t>(i));
  }
  return image;
}

TEST(Resize, IsPillowsPixelForPixel) {
  const std::filesystem::path fixtures = source_folder() / "tests/data/fixtures";
  const auto expected = nlohmann::json::parse(read_file(fixtures / "expected.json"));
  const Image source = data::decode_image(fixtures / "resize_source.png");
  for (const auto& want : expected["resized"]) {
    const int height = want["size"][0];
    const int width = want["size"][1];
    SCOPED_TRACE(concat(width, "x", height));
    EXPECT_EQ(data::resize_bilinear(source, height, width).pixels,
              want["pixels"].get<std::vector<std::uint8_t>>());
  }
}

TEST(Resize, CropOutsideIsZero) {
  const Image image = numbered(2, 2);
  EXPECT_EQ(data::crop(image, -1, 1, 2, 2).pixels,
            (std::vector<std::uint8_t>{0, 0, 0, 0, 0, 0, 3, 4, 5, 0, 0, 0}));
  EXPECT_EQ(data::crop(image, 5, 5, 1, 1).pixels, (std::vector<std::uint8_t>{0, 0, 0}));
}

TEST(Resize, FlipTwiceIsTheImage) {
  Image image = numbered(2, 3);
  data::flip_horizontal(image);
  EXPECT_EQ(image.at(0, 0)[0], 6);
  data::flip_horizontal(image);
  EXPECT_EQ(image.pixels, numbered(2, 3).pixels);
}

TEST(Transform, GivesItsSizeForEveryShape) {
  for (const bool training : {true, false}) {
    for (const auto& [h, w] : {std::pair{300, 200}, {1, 1}, {5, 4000}, {224, 224}}) {
      RandomStream random(1, 2);
      const Image out =
          data::Transform{data::TransformKind::imagenet, training}(numbered(h, w), random);
      EXPECT_EQ(out.height, 224);
      EXPECT_EQ(out.width, 224);
    }
    RandomStream random(1, 2);
    const Image out =
        data::Transform{data::TransformKind::cifar, training}(numbered(32, 32), random);
    EXPECT_EQ(out.pixels.size(), 32U * 32U * 3U);
    EXPECT_EQ(out.pixels == numbered(32, 32).pixels, !training);
  }
}

TEST(Transform, NamesRoundTripAndOthersAreRefused) {
  for (const char* name : {"to-tensor", "cifar", "imagenet"}) {
    EXPECT_STREQ(data::name_of(data::parse_transform(name)), name);
  }
  EXPECT_TRUE(contains(error_of([] { data::parse_transform("resize"); }), "expected to-tensor"));
}

}  // namespace
}  // namespace ringgrad::test
