#include "data/image.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "data/exif.h"
#include "runtime/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace ringgrad::test {
namespace {

const std::filesystem::path kFixtures = source_folder() / "tests/data/fixtures";

// Every kind of file against Pillow's pixels. PNG is exact; JPEG decoders may round differently,
// and CMYK is turned into RGB by a formula of the decoder's own.
TEST(Image, DecodesWhatPillowDecodes) {
  const auto expected = nlohmann::json::parse(read_file(kFixtures / "expected.json"));
  for (const auto& [name, want] : expected["images"].items()) {
    SCOPED_TRACE(name);
    const data::Image image = data::decode_image(kFixtures / name);
    ASSERT_EQ(image.height, want["size"][0].get<int>());
    ASSERT_EQ(image.width, want["size"][1].get<int>());
    const auto pixels = want["pixels"].get<std::vector<int>>();
    int worst = 0;
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      worst = std::max(worst, std::abs(pixels[i] - image.pixels[i]));
    }
    const bool png = name.find(".png") != std::string::npos;
    EXPECT_LE(worst, png ? 0 : 3);
  }
}

TEST(Image, ExifRotationIsIgnoredUnlessAskedFor) {
  const data::Image as_stored = data::decode_image(kFixtures / "rotated.jpg");
  const data::Image turned = data::decode_image(kFixtures / "rotated.jpg", true);
  ASSERT_EQ(as_stored.width, 24);
  ASSERT_EQ(turned.width, 16);
  ASSERT_EQ(turned.height, 24);
  // Orientation 6: the stored image is to be turned by 90 degrees clockwise.
  EXPECT_TRUE(std::equal(turned.at(0, 15), turned.at(0, 15) + 3, as_stored.at(0, 0)));
  EXPECT_TRUE(std::equal(turned.at(5, 0), turned.at(5, 0) + 3, as_stored.at(15, 5)));
}

TEST(Image, EveryOrientationIsPillows) {
  // 2x3 pixels numbered 1 to 6; rows behind one another, as ImageOps.exif_transpose leaves them.
  data::Image image{2, 3, {}};
  for (int i = 1; i <= 6; ++i) {
    image.pixels.insert(image.pixels.end(), 3, static_cast<std::uint8_t>(i));
  }
  const char* expected[] = {"123456", "321654", "654321", "456123",
                            "142536", "415263", "635241", "362514"};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const data::Image turned = data::upright(image, orientation);
    std::string text;
    for (std::size_t i = 0; i < turned.pixels.size(); i += 3) {
      text += static_cast<char>('0' + turned.pixels[i]);
    }
    EXPECT_EQ(text, expected[orientation - 1]) << orientation;
    EXPECT_EQ(turned.width, orientation >= 5 ? 2 : 3);
  }
}

TEST(Image, SixteenBitGrayKeepsTheHighByte) {
  const data::Image image = data::decode_image(kFixtures / "gray16.png");
  EXPECT_EQ(image.pixels,
            (std::vector<std::uint8_t>{0, 0, 0, 1, 1, 1, 128, 128, 128, 255, 255, 255}));
}

TEST(Image, FilesCutShortAreNamed) {
  for (const char* name : {"rgb.jpg", "progressive.jpg", "rgb.png", "gray.jpg"}) {
    const std::string whole = read_file(kFixtures / name);
    for (const std::size_t percent : {1U, 10U, 50U, 99U}) {
      const std::string error = error_of([&] {
        data::decode_image_bytes(whole.substr(0, whole.size() * percent / 100), "cut.jpg");
      });
      EXPECT_TRUE(contains(error, "cut.jpg: ")) << name << " at " << percent << " %";
    }
  }
}

TEST(Image, OtherContentIsRefused) {
  EXPECT_EQ(error_of([] { data::decode_image_bytes(std::string(), "a.jpg"); }),
            "a.jpg: the file is empty");
  EXPECT_EQ(error_of([] { data::decode_image_bytes("Some text.", "a.jpg"); }),
            "a.jpg: neither a JPEG nor a PNG file");
  EXPECT_EQ(error_of([] { data::decode_image_bytes("GIF89a......", "a.gif"); }),
            "a.gif: neither a JPEG nor a PNG file");
  EXPECT_TRUE(contains(error_of([] { data::decode_image("/nonexistent.jpg"); }),
                       "/nonexistent.jpg: No such file"));
}

TEST(Image, AnAbsurdSizeIsRefusedBeforeMemoryIsTaken) {
  std::string png = read_file(kFixtures / "rgb.png");
  png[16] = png[20] = '\0';
  png[17] = png[21] = '\x7f';  // width and height of 8 million
  const std::string error = error_of([&] { data::decode_image_bytes(png, "huge.png"); });
  EXPECT_TRUE(contains(error, "huge.png: "));
}

TEST(Image, PngIsWrittenLossless) {
  const TemporaryFolder folder;
  const data::Image image = data::decode_image(kFixtures / "rgb.png");
  data::write_png(folder / "copy.png", image);
  EXPECT_EQ(data::decode_image(folder / "copy.png").pixels, image.pixels);
}

}  // namespace
}  // namespace ringgrad::test
