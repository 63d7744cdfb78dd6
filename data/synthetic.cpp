#include <cmath>
#include <cstdio>

#include "data/dataset.h"
#include "runtime/error.h"
#include "runtime/philox.h"

namespace ringgrad::data {
namespace {

class SyntheticDataset : public Dataset {
 public:
  SyntheticDataset(int height, int width, Split split, const DatasetOptions& options)
      : height_(height),
        width_(width),
        size_(split == Split::train ? options.samples
                                    : std::max<std::int64_t>(1, options.samples / 4)),
        seed_(options.seed),
        split_key_(split == Split::train ? 1 : 2) {
    for (int c = 0; c < options.classes; ++c) {
      classes_.push_back("pattern-" + std::to_string(c));
    }
  }

  std::int64_t size() const override { return size_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  std::int32_t label(std::int64_t index) const override {
    return static_cast<std::int32_t>(index % static_cast<std::int64_t>(classes_.size()));
  }

  Image image(std::int64_t index) const override {
    const std::int32_t own = label(index);
    RandomStream pattern(seed_, StreamKey().add_text("pattern").add(std::uint64_t(own)).value());
    const float angle = 3.14159265F * pattern.next_float();
    const float frequency = 2 + 6 * pattern.next_float();
    const float colour[3] = {pattern.next_float(), pattern.next_float(), pattern.next_float()};
    RandomStream sample(
        seed_, StreamKey().add_text("sample").add(split_key_).add(std::uint64_t(index)).value());
    const float phase = 6.2831853F * sample.next_float();
    Image image{height_, width_, {}};
    image.pixels.resize(std::size_t{3} * static_cast<std::size_t>(height_ * width_));
    for (int y = 0; y < height_; ++y) {
      for (int x = 0; x < width_; ++x) {
        const float u = static_cast<float>(x) / static_cast<float>(width_);
        const float v = static_cast<float>(y) / static_cast<float>(height_);
        const float along = u * std::cos(angle) + v * std::sin(angle);
        const float wave = 0.5F + 0.5F * std::sin(6.2831853F * frequency * along + phase);
        for (int c = 0; c < 3; ++c) {
          const float noise = sample.next_float();
          const float value = 0.45F * wave * colour[c] + 0.25F * colour[c] + 0.3F * noise;
          image.at(y, x)[c] = static_cast<std::uint8_t>(255 * value);
        }
      }
    }
    return image;
  }

  std::string source(std::int64_t index) const override {
    return concat("synthetic image ", index);
  }

 private:
  int height_, width_;
  std::int64_t size_;
  std::uint64_t seed_, split_key_;
  std::vector<std::string> classes_;
};

}  // namespace

std::unique_ptr<Dataset> open_synthetic(const std::string& size, Split split,
                                        const DatasetOptions& options) {
  int height = 0;
  int width = 0;
  char rest = 0;
  RINGGRAD_CHECK(std::sscanf(size.c_str(), "%dx%d%c", &height, &width, &rest) == 2 && height >= 1 &&
                     width >= 1 && height <= 4096 && width <= 4096,
                 "data synthetic:", size, ": expected HxW such as synthetic:32x32");
  RINGGRAD_CHECK(options.classes >= 1, "data synthetic: needs at least one class");
  RINGGRAD_CHECK(options.samples >= 1, "data synthetic: --samples ", options.samples,
                 "; expected 1 or more");
  return std::make_unique<SyntheticDataset>(height, width, split, options);
}

}  // namespace ringgrad::data
