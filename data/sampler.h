// Which samples a rank sees in an epoch, and in which order.
#pragma once

#include <cstdint>
#include <vector>

namespace ringgrad::data {

// As torch.utils.data.DistributedSampler: every rank gets as many samples, padded cyclically from
// the start of the epoch's order (or, with drop_last, cut), rank r taking positions r, r + world, r
// + 2 world, …
class DistributedSampler {
 public:
  struct Options {
    int rank = 0;
    int world = 1;
    bool shuffle = true;
    bool drop_last = false;
    std::uint64_t seed = 0;
  };

  // Error if there is nothing to share out: no samples, or drop_last with fewer samples than ranks.
  DistributedSampler(std::int64_t samples, Options options);

  // The order changes with the epoch and is the same for the same seed.
  void set_epoch(std::int64_t epoch) { epoch_ = epoch; }
  std::int64_t epoch() const { return epoch_; }
  // The samples of this rank in this epoch.
  std::vector<std::int64_t> indices() const;
  // How many indices() has.
  std::int64_t size() const { return per_rank_; }

 private:
  std::int64_t samples_;
  Options options_;
  std::int64_t per_rank_;
  std::int64_t epoch_ = 0;
};

// For evaluation: every sample exactly once over all ranks, unshuffled; shards may differ by one.
std::vector<std::int64_t> evaluation_shard(std::int64_t samples, int rank, int world);

}  // namespace ringgrad::data
