#include "data/transform.h"

#include <algorithm>
#include <cmath>

#include "data/resize.h"
#include "runtime/error.h"

namespace ringgrad::data {
namespace {

constexpr int kCrop = 224;
constexpr int kResize = 256;

int below(RandomStream& random, int n) {
  return static_cast<int>(random.next_below(static_cast<std::uint32_t>(n)));
}

double uniform(RandomStream& random, double low, double high) {
  return low + (high - low) * static_cast<double>(random.next_float());
}

// A crop of 8 to 100 % of the area and an aspect ratio of 3/4 to 4/3, scaled to the size; after ten
// attempts that do not fit, the largest central crop within those ratios (torchvision's
// RandomResizedCrop).
Image random_resized_crop(const Image& image, RandomStream& random) {
  const double area = static_cast<double>(image.height) * image.width;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * uniform(random, 0.08, 1.0);
    const double ratio = std::exp(uniform(random, std::log(3.0 / 4.0), std::log(4.0 / 3.0)));
    const int width = static_cast<int>(std::lround(std::sqrt(target * ratio)));
    const int height = static_cast<int>(std::lround(std::sqrt(target / ratio)));
    if (width > 0 && width <= image.width && height > 0 && height <= image.height) {
      const int top = below(random, image.height - height + 1);
      const int left = below(random, image.width - width + 1);
      return resize_bilinear(crop(image, top, left, height, width), kCrop, kCrop);
    }
  }
  int width = image.width;
  int height = image.height;
  const double ratio = static_cast<double>(width) / height;
  if (ratio < 3.0 / 4.0) {
    height = static_cast<int>(std::lround(width / (3.0 / 4.0)));
  } else if (ratio > 4.0 / 3.0) {
    width = static_cast<int>(std::lround(height * (4.0 / 3.0)));
  }
  return resize_bilinear(
      crop(image, (image.height - height) / 2, (image.width - width) / 2, height, width), kCrop,
      kCrop);
}

// The short side to 256, then the central 224x224 (halves round to even, as Python's round).
Image resize_and_center_crop(const Image& image) {
  const int shorter = std::min(image.height, image.width);
  const auto scaled = [&](int side) {
    return static_cast<int>(static_cast<double>(kResize) * side / shorter);
  };
  const Image resized = resize_bilinear(image, scaled(image.height), scaled(image.width));
  const auto start = [](int side) {
    return static_cast<int>(std::nearbyint((side - kCrop) / 2.0));
  };
  return crop(resized, start(resized.height), start(resized.width), kCrop, kCrop);
}

}  // namespace

TransformKind parse_transform(const std::string& text) {
  for (const TransformKind kind :
       {TransformKind::to_tensor, TransformKind::cifar, TransformKind::imagenet}) {
    if (text == name_of(kind)) {
      return kind;
    }
  }
  throw Error(concat("transform '", text, "': expected to-tensor, cifar or imagenet"));
}

const char* name_of(TransformKind kind) {
  switch (kind) {
    case TransformKind::to_tensor:
      return "to-tensor";
    case TransformKind::cifar:
      return "cifar";
    case TransformKind::imagenet:
      return "imagenet";
  }
  return "?";
}

RandomStream augmentation_stream(std::uint64_t seed, std::int64_t epoch, std::int64_t index) {
  return {seed, StreamKey()
                    .add_text("augment")
                    .add(static_cast<std::uint64_t>(epoch))
                    .add(static_cast<std::uint64_t>(index))
                    .value()};
}

Image Transform::operator()(Image image, RandomStream& random) const {
  switch (kind) {
    case TransformKind::to_tensor:
      return image;
    case TransformKind::cifar:
      if (training) {
        constexpr int kPad = 4;
        const int top = below(random, 2 * kPad + 1) - kPad;
        const int left = below(random, 2 * kPad + 1) - kPad;
        image = crop(image, top, left, image.height, image.width);
      }
      break;
    case TransformKind::imagenet:
      image = training ? random_resized_crop(image, random) : resize_and_center_crop(image);
      break;
  }
  if (training && below(random, 2) == 1) {
    flip_horizontal(image);
  }
  return image;
}

ChannelStatistics statistics_of(TransformKind kind) {
  switch (kind) {
    case TransformKind::to_tensor:
      break;
    case TransformKind::cifar:
      return {{0.4914F, 0.4822F, 0.4465F}, {0.2470F, 0.2435F, 0.2616F}};
    case TransformKind::imagenet:
      return {{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}};
  }
  return {{0, 0, 0}, {1, 1, 1}};
}

}  // namespace ringgrad::data
