// Decoded images: bytes (H,W,3), row-major.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ringgrad::data {

struct Image {
  int height = 0;
  int width = 0;
  std::vector<std::uint8_t> pixels;  // (H,W,3)

  std::uint8_t* at(int y, int x) { return pixels.data() + (std::ptrdiff_t{y} * width + x) * 3; }
  const std::uint8_t* at(int y, int x) const {
    return pixels.data() + (std::ptrdiff_t{y} * width + x) * 3;
  }
};

// A JPEG or PNG as three channels: gray is repeated, alpha dropped, 16 bits keep the high byte,
// CMYK is converted. EXIF rotation is ignored, as torchvision does, unless it is asked for. Error
// with the file's name and the reason for anything else: another format, an incomplete file, a size
// that no photograph has.
Image decode_image(const std::filesystem::path& path, bool exif_rotation = false);
// The same from memory; `name` is what errors call it.
Image decode_image_bytes(const std::string& bytes, const std::string& name,
                         bool exif_rotation = false);

void write_png(const std::filesystem::path& path, const Image& image);

}  // namespace ringgrad::data
