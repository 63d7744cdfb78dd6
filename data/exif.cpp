#include "data/exif.h"

#include <algorithm>

namespace ringgrad::data {
namespace {

// Numbers of a TIFF block, in its own byte order; 0 outside of it.
class Tiff {
 public:
  Tiff(const std::string& bytes, std::size_t begin) : bytes_(bytes), begin_(begin) {
    big_endian_ = byte(0) == 'M';
  }
  unsigned number(std::size_t at, int size) const {
    unsigned value = 0;
    for (int i = 0; i < size; ++i) {
      const int index = big_endian_ ? i : size - 1 - i;
      value = value << 8 | byte(at + static_cast<std::size_t>(index));
    }
    return value;
  }

 private:
  unsigned byte(std::size_t at) const {
    return begin_ + at < bytes_.size() ? static_cast<unsigned char>(bytes_[begin_ + at]) : 0;
  }
  const std::string& bytes_;
  std::size_t begin_;
  bool big_endian_;
};

int orientation_in(const Tiff& tiff) {
  constexpr unsigned kOrientation = 0x0112;
  const unsigned directory = tiff.number(4, 4);
  const unsigned entries = std::min(tiff.number(directory, 2), 512U);
  for (unsigned i = 0; i < entries; ++i) {
    const std::size_t entry = std::size_t{directory} + 2 + std::size_t{12} * i;
    if (tiff.number(entry, 2) == kOrientation) {
      const unsigned value = tiff.number(entry + 8, 2);
      return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
    }
  }
  return 1;
}

}  // namespace

int exif_orientation(const std::string& jpeg) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(jpeg[i]); };
  std::size_t at = 2;
  // Segments up to the image data; EXIF is an APP1 segment that starts with its name.
  while (at + 4 < jpeg.size() && byte(at) == 0xff && byte(at + 1) != 0xda) {
    if (byte(at + 1) == 0xe1 && jpeg.compare(at + 4, 6, std::string("Exif\0\0", 6)) == 0) {
      return orientation_in(Tiff(jpeg, at + 10));
    }
    at += 2 + std::size_t{byte(at + 2)} * 256 + byte(at + 3);
  }
  return 1;
}

Image upright(const Image& image, int orientation) {
  if (orientation <= 1 || orientation > 8) {
    return image;
  }
  const bool transposed = orientation >= 5;
  Image out{transposed ? image.width : image.height, transposed ? image.height : image.width, {}};
  out.pixels.resize(image.pixels.size());
  const bool flip_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool flip_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  for (int y = 0; y < out.height; ++y) {
    for (int x = 0; x < out.width; ++x) {
      int from_y = transposed ? x : y;
      int from_x = transposed ? y : x;
      from_x = flip_x ? image.width - 1 - from_x : from_x;
      from_y = flip_y ? image.height - 1 - from_y : from_y;
      std::copy_n(image.at(from_y, from_x), 3, out.at(y, x));
    }
  }
  return out;
}

}  // namespace ringgrad::data
