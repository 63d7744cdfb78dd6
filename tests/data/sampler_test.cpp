#include "data/sampler.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/expect_error.h"

namespace ringgrad::test {
namespace {

using Indices = std::vector<std::int64_t>;
using data::DistributedSampler;

Indices shard(std::int64_t samples, int rank, int world, bool drop_last = false) {
  DistributedSampler::Options options;
  options.rank = rank;
  options.world = world;
  options.shuffle = false;
  options.drop_last = drop_last;
  return DistributedSampler(samples, options).indices();
}

TEST(Sampler, PadsCyclically) {
  EXPECT_EQ(shard(10, 0, 3), (Indices{0, 3, 6, 9}));
  EXPECT_EQ(shard(10, 1, 3), (Indices{1, 4, 7, 0}));
  EXPECT_EQ(shard(10, 2, 3), (Indices{2, 5, 8, 1}));
  Indices first;
  for (int rank = 0; rank < 8; ++rank) {
    ASSERT_EQ(shard(3, rank, 8).size(), 1U);
    first.push_back(shard(3, rank, 8).front());
  }
  EXPECT_EQ(first, (Indices{0, 1, 2, 0, 1, 2, 0, 1}));
}

TEST(Sampler, DropLastCutsAndRefusesWhenNothingIsLeft) {
  EXPECT_EQ(shard(10, 2, 3, true), (Indices{2, 5, 8}));
  EXPECT_TRUE(contains(error_of([] { shard(3, 0, 8, true); }), "3 samples for 8 ranks"));
  EXPECT_TRUE(contains(error_of([] { shard(0, 0, 1); }), "empty"));
}

TEST(Sampler, TheOrderChangesWithTheEpochAndRepeatsWithTheSeed) {
  const auto order = [](std::uint64_t seed, int epoch) {
    DistributedSampler::Options options;
    options.seed = seed;
    DistributedSampler sampler(100, options);
    sampler.set_epoch(epoch);
    return sampler.indices();
  };
  EXPECT_EQ(order(1, 3), order(1, 3));
  EXPECT_NE(order(1, 3), order(1, 4));
  EXPECT_NE(order(1, 3), order(2, 3));
  const Indices one = order(1, 3);
  EXPECT_EQ(std::set<std::int64_t>(one.begin(), one.end()).size(), 100U);
}

TEST(Sampler, EvaluationCountsEverySampleOnce) {
  for (const int world : {1, 2, 3}) {
    std::multiset<std::int64_t> seen;
    for (int rank = 0; rank < world; ++rank) {
      const Indices mine = data::evaluation_shard(10, rank, world);
      seen.insert(mine.begin(), mine.end());
    }
    EXPECT_EQ(seen, (std::multiset<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  }
}

}  // namespace
}  // namespace ringgrad::test
