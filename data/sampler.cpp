#include "data/sampler.h"

#include <numeric>

#include "runtime/error.h"
#include "runtime/philox.h"

namespace ringgrad::data {

DistributedSampler::DistributedSampler(std::int64_t samples, Options options)
    : samples_(samples), options_(options) {
  RINGGRAD_CHECK(options.world >= 1 && options.rank >= 0 && options.rank < options.world,
                 "sampler: rank ", options.rank, " of a world of ", options.world);
  RINGGRAD_CHECK(samples > 0, "sampler: the data set is empty");
  RINGGRAD_CHECK(!options.drop_last || samples >= options.world, "sampler: ", samples,
                 " samples for ", options.world,
                 " ranks leave nothing for each when the last ones are dropped");
  per_rank_ =
      options.drop_last ? samples / options.world : (samples + options.world - 1) / options.world;
}

std::vector<std::int64_t> DistributedSampler::indices() const {
  std::vector<std::int64_t> order(static_cast<std::size_t>(samples_));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (options_.shuffle) {
    RandomStream random(
        options_.seed,
        StreamKey().add_text("shuffle").add(static_cast<std::uint64_t>(epoch_)).value());
    for (std::size_t i = order.size() - 1; i > 0; --i) {
      std::swap(order[i], order[random.next_below(static_cast<std::uint32_t>(i + 1))]);
    }
  }
  std::vector<std::int64_t> mine;
  for (std::int64_t i = 0; i < per_rank_; ++i) {
    const std::int64_t position = (options_.rank + i * options_.world) % samples_;
    mine.push_back(order[static_cast<std::size_t>(position)]);
  }
  return mine;
}

std::vector<std::int64_t> evaluation_shard(std::int64_t samples, int rank, int world) {
  std::vector<std::int64_t> mine;
  for (std::int64_t i = rank; i < samples; i += world) {
    mine.push_back(i);
  }
  return mine;
}

}  // namespace ringgrad::data
