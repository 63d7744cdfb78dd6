// What happens to an image between the file and the network, apart from becoming floats.
#pragma once

#include <string>

#include "data/image.h"
#include "runtime/philox.h"

namespace ringgrad::data {

enum class TransformKind {
  to_tensor,  // nothing: 0..1, not normalised (the CIFAR tutorial's)
  cifar,      // training: pad 4, random 32x32 crop, random flip; CIFAR-10's mean and deviation
  imagenet,   // training: RandomResizedCrop(224), flip; else Resize(256), CenterCrop(224);
              // ImageNet's mean
};

// "to-tensor", "cifar" or "imagenet".
TransformKind parse_transform(const std::string& text);
const char* name_of(TransformKind kind);

// The random choices for a sample: they follow from (seed, epoch, index) alone.
RandomStream augmentation_stream(std::uint64_t seed, std::int64_t epoch, std::int64_t index);

struct Transform {
  TransformKind kind = TransformKind::to_tensor;
  bool training = true;

  // The image as the network sees it; random choices come from `random` alone.
  Image operator()(Image image, RandomStream& random) const;
};

// Mean and deviation per channel that go with it, in units of 0..1.
struct ChannelStatistics {
  float mean[3];
  float stddev[3];
};
ChannelStatistics statistics_of(TransformKind kind);

}  // namespace ringgrad::data
