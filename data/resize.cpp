#include "data/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ringgrad::data {
namespace {

constexpr int kPrecisionBits = 22;

// For each output position: the first input that counts and the weights from there on.
struct Filter {
  int first;
  std::vector<std::int32_t> weights;
};

std::vector<Filter> triangle_filters(int in, int out) {
  const double scale = static_cast<double>(in) / out;
  const double support = std::max(scale, 1.0);
  std::vector<Filter> filters(static_cast<std::size_t>(out));
  for (int i = 0; i < out; ++i) {
    const double centre = (i + 0.5) * scale;
    // Halves go up, as in Pillow.
    const int first = std::max(0, static_cast<int>(std::floor(centre - support + 0.5)));
    const int end = std::min(in, static_cast<int>(std::floor(centre + support + 0.5)));
    std::vector<double> weights;
    double sum = 0;
    for (int x = first; x < end; ++x) {
      const double distance = std::abs((x - centre + 0.5) / support);
      weights.push_back(distance < 1 ? 1 - distance : 0.0);
      sum += weights.back();
    }
    Filter& filter = filters[static_cast<std::size_t>(i)];
    filter.first = first;
    for (const double weight : weights) {
      filter.weights.push_back(
          static_cast<std::int32_t>(std::lround(weight / sum * (1 << kPrecisionBits))));
    }
  }
  return filters;
}

std::uint8_t rounded(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kPrecisionBits, 0, 255));
}

constexpr std::int32_t kHalf = 1 << (kPrecisionBits - 1);

// Only the rows [first, first + height) are needed by the pass over columns.
Image resize_rows(const Image& image, int first, int height, int width) {
  Image out{height, width, {}};
  out.pixels.resize(std::size_t{3} * static_cast<std::size_t>(height) *
                    static_cast<std::size_t>(width));
  const std::vector<Filter> filters = triangle_filters(image.width, width);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const Filter& filter = filters[static_cast<std::size_t>(x)];
      std::int32_t sums[3] = {kHalf, kHalf, kHalf};
      const std::uint8_t* pixel = image.at(first + y, filter.first);
      for (const std::int32_t weight : filter.weights) {
        for (int c = 0; c < 3; ++c) {
          sums[c] += weight * *pixel++;
        }
      }
      for (int c = 0; c < 3; ++c) {
        out.at(y, x)[c] = rounded(sums[c]);
      }
    }
  }
  return out;
}

Image resize_columns(const Image& image, const std::vector<Filter>& filters, int first_row,
                     int height) {
  Image out{height, image.width, {}};
  const int row = image.width * 3;
  out.pixels.resize(static_cast<std::size_t>(height) * static_cast<std::size_t>(row));
  std::vector<std::int32_t> sums(static_cast<std::size_t>(row));
  for (int y = 0; y < height; ++y) {
    const Filter& filter = filters[static_cast<std::size_t>(y)];
    std::fill(sums.begin(), sums.end(), kHalf);
    int from = filter.first - first_row;
    for (const std::int32_t weight : filter.weights) {
      const std::uint8_t* pixels = image.at(from++, 0);
      for (int i = 0; i < row; ++i) {
        sums[static_cast<std::size_t>(i)] += weight * pixels[i];
      }
    }
    std::transform(sums.begin(), sums.end(), out.at(y, 0), rounded);
  }
  return out;
}

}  // namespace

Image resize_bilinear(const Image& image, int height, int width) {
  if (image.height == height && image.width == width) {
    return image;
  }
  const std::vector<Filter> columns = triangle_filters(image.height, height);
  const int first = columns.front().first;
  const int end = columns.back().first + static_cast<int>(columns.back().weights.size());
  const Image rows = image.width == width ? crop(image, first, 0, end - first, width)
                                          : resize_rows(image, first, end - first, width);
  return image.height == height ? rows : resize_columns(rows, columns, first, height);
}

Image crop(const Image& image, int top, int left, int height, int width) {
  Image out{height, width, {}};
  out.pixels.resize(std::size_t{3} * static_cast<std::size_t>(height) *
                    static_cast<std::size_t>(width));
  const int begin = std::clamp(-left, 0, width);
  const int end = std::clamp(image.width - left, begin, width);
  for (int y = 0; y < height; ++y) {
    if (top + y >= 0 && top + y < image.height && end > begin) {
      std::memcpy(out.at(y, begin), image.at(top + y, left + begin),
                  static_cast<std::size_t>(end - begin) * 3);
    }
  }
  return out;
}

void flip_horizontal(Image& image) {
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width / 2; ++x) {
      std::swap_ranges(image.at(y, x), image.at(y, x) + 3, image.at(y, image.width - 1 - x));
    }
  }
}

}  // namespace ringgrad::data
