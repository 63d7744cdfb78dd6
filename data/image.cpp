#include "data/image.h"

#include <cstring>
#include <memory>

#include "data/exif.h"
#include "runtime/error.h"
#include "runtime/file.h"

#define STBI_ONLY_JPEG
#define STBI_ONLY_PNG
#define STBI_NO_STDIO
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#define STBI_WRITE_NO_STDIO
#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb/stb_image.h>
#include <stb/stb_image_write.h>
#pragma GCC diagnostic pop

namespace ringgrad::data {
namespace {

// Beyond this a header is a mistake or an attack (Pillow draws the line at the same size).
constexpr std::int64_t kMostPixels = 178956970;

bool starts_with(const std::string& bytes, const char* magic, std::size_t length) {
  return bytes.size() >= length && std::memcmp(bytes.data(), magic, length) == 0;
}

// Whether a JPEG goes on to its end-of-image marker. The decoder fills what is missing with gray
// and says nothing, so the markers are walked here (ITU-T T.81, annex B).
bool jpeg_is_complete(const std::string& bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  std::size_t at = 2;
  while (at + 1 < bytes.size()) {
    if (byte(at) != 0xff) {
      ++at;  // entropy-coded data, or padding
      continue;
    }
    const unsigned char marker = byte(at + 1);
    if (marker == 0xd9) {
      return true;
    }
    if (marker == 0xff) {
      ++at;
    } else if (marker == 0x00 || marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8)) {
      at += 2;  // a stuffed byte, or a marker without a segment
    } else if (at + 3 < bytes.size()) {
      at += 2 + std::size_t{byte(at + 2)} * 256 + byte(at + 3);
    } else {
      return false;
    }
  }
  return false;
}

bool png_is_complete(const std::string& bytes) {
  // The last chunk is IEND, empty, with its fixed checksum.
  constexpr char kEnd[] = "\0\0\0\0IEND\xae\x42\x60\x82";
  return bytes.find(std::string(kEnd, sizeof kEnd - 1)) != std::string::npos;
}

}  // namespace

Image decode_image_bytes(const std::string& bytes, const std::string& name, bool exif_rotation) {
  RINGGRAD_CHECK(!bytes.empty(), name, ": the file is empty");
  const bool jpeg = starts_with(bytes, "\xff\xd8", 2);
  const bool png = starts_with(bytes, "\x89PNG\r\n\x1a\n", 8);
  RINGGRAD_CHECK(jpeg || png, name, ": neither a JPEG nor a PNG file");
  RINGGRAD_CHECK(jpeg ? jpeg_is_complete(bytes) : png_is_complete(bytes), name,
                 ": the file is cut short");
  const auto* data = reinterpret_cast<const stbi_uc*>(bytes.data());
  const int length = static_cast<int>(bytes.size());
  int width = 0;
  int height = 0;
  int channels = 0;
  RINGGRAD_CHECK(stbi_info_from_memory(data, length, &width, &height, &channels) != 0, name, ": ",
                 stbi_failure_reason());
  RINGGRAD_CHECK(std::int64_t{width} * height <= kMostPixels, name, ": claims to be ", width, "x",
                 height, " pixels; at most ", kMostPixels, " are decoded");
  const std::unique_ptr<stbi_uc, void (*)(void*)> pixels(
      stbi_load_from_memory(data, length, &width, &height, &channels, 3), stbi_image_free);
  RINGGRAD_CHECK(pixels != nullptr, name, ": ", stbi_failure_reason());
  Image image{height, width, {}};
  image.pixels.assign(pixels.get(), pixels.get() + std::ptrdiff_t{3} * width * height);
  return jpeg && exif_rotation ? upright(image, exif_orientation(bytes)) : image;
}

Image decode_image(const std::filesystem::path& path, bool exif_rotation) {
  return decode_image_bytes(read_file(path), path.string(), exif_rotation);
}

void write_png(const std::filesystem::path& path, const Image& image) {
  std::string bytes;
  const auto append = [](void* out, void* data, int size) {
    static_cast<std::string*>(out)->append(static_cast<const char*>(data),
                                           static_cast<std::size_t>(size));
  };
  RINGGRAD_ASSERT(stbi_write_png_to_func(append, &bytes, image.width, image.height, 3,
                                         image.pixels.data(), image.width * 3) != 0);
  write_file(path, bytes);
}

}  // namespace ringgrad::data
