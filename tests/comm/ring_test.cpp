#include "comm/ring.h"

#include <gtest/gtest.h>

#include <mutex>

#include "kernels/backends.h"
#include "tests/support/expect_error.h"
#include "tests/support/random_data.h"
#include "tests/support/ranks.h"

namespace ringgrad::test {
namespace {

using comm::ReduceOp;

template <class T>
std::vector<std::vector<T>> all_reduce(int ranks, std::vector<std::vector<T>> inputs, ReduceOp op) {
  run_ranks(ranks, [&](comm::Communicator& c) {
    const auto context = kernels::open_context("cpu", 1);
    std::vector<T>& mine = inputs[static_cast<std::size_t>(c.rank())];
    c.all_reduce(mine.data(), static_cast<std::int64_t>(mine.size()), dtype_of<T>(), op,
                 context->compute_stream())
        ->wait(context->compute_stream());
  });
  return inputs;
}

TEST(Ring, AllReduceIsExactForAwkwardCounts) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    for (const std::int64_t count : {0, 1, ranks - 1, ranks, ranks + 1, 1023}) {
      SCOPED_TRACE(concat(ranks, " ranks, ", count, " elements"));
      std::vector<std::vector<float>> inputs;
      std::vector<float> sum(static_cast<std::size_t>(count)), largest = sum, smallest = sum;
      for (int r = 0; r < ranks; ++r) {
        inputs.push_back(integers(count, static_cast<std::uint64_t>(r), -100, 100));
        for (std::size_t i = 0; i < sum.size(); ++i) {
          sum[i] += inputs.back()[i];
          largest[i] = r == 0 ? inputs.back()[i] : std::max(largest[i], inputs.back()[i]);
          smallest[i] = r == 0 ? inputs.back()[i] : std::min(smallest[i], inputs.back()[i]);
        }
      }
      for (const auto& [op, expected] : {std::pair{ReduceOp::sum, &sum},
                                         {ReduceOp::max, &largest},
                                         {ReduceOp::min, &smallest}}) {
        for (const auto& result : all_reduce(ranks, inputs, op)) {
          EXPECT_EQ(result, *expected) << comm::name_of(op);
        }
      }
    }
  }
}

TEST(Ring, FloatsHaveTheSameBitsOnEveryRankAndInEveryRun) {
  for (const int ranks : {3, 4, 5}) {
    std::vector<std::vector<float>> inputs;
    for (int r = 0; r < ranks; ++r) {
      inputs.push_back(uniform(1001, static_cast<std::uint64_t>(r)));
    }
    const auto first = all_reduce(ranks, inputs, ReduceOp::average);
    const auto second = all_reduce(ranks, inputs, ReduceOp::average);
    for (const auto& result : first) {
      EXPECT_EQ(result, first.front());
    }
    EXPECT_EQ(first, second);
  }
}

TEST(Ring, AnAverageOfIntegersIsRefusedOnEveryRank) {
  EXPECT_TRUE(contains(error_of([] {
                         all_reduce<std::int64_t>(2, {{1}, {2}}, ReduceOp::average);
                       }),
                       "integers"));
}

TEST(Ring, RanksThatDisagreeOnTheCountAllFail) {
  std::mutex mutex;
  int failures = 0;
  run_ranks(3, [&](comm::Communicator& c) {
    const auto context = kernels::open_context("cpu", 1);
    std::vector<float> mine(c.rank() == 1 ? 9 : 12);
    const std::string error = error_of([&] {
      c.all_reduce(mine.data(), static_cast<std::int64_t>(mine.size()), DType::f32, ReduceOp::sum,
                   context->compute_stream())
          ->wait(context->compute_stream());
    });
    const std::lock_guard<std::mutex> lock(mutex);
    failures += contains(error, "disagree") ? 1 : 0;
  });
  EXPECT_EQ(failures, 3);
}

TEST(Ring, ARankThatSendsNothingIsNamed) {
  auto transports = comm::make_memory_transports(2, std::chrono::milliseconds(50));
  std::vector<float> data(4);
  EXPECT_EQ(error_of([&] {
              comm::ring_all_reduce(*transports[0], data.data(), 4, DType::f32, ReduceOp::sum);
            }),
            "rank 0 waited 50 ms for rank 1, which sent nothing");
}

TEST(Ring, BroadcastReachesAllFromAnyRoot) {
  for (const int ranks : {1, 2, 5}) {
    for (int root = 0; root < ranks; ++root) {
      std::vector<int> got(static_cast<std::size_t>(ranks));
      run_ranks(ranks, [&](comm::Communicator& c) {
        const auto context = kernels::open_context("cpu", 1);
        int& mine = got[static_cast<std::size_t>(c.rank())];
        mine = c.rank() == root ? 77 : 0;
        c.broadcast(&mine, sizeof mine, root, context->compute_stream())
            ->wait(context->compute_stream());
      });
      EXPECT_EQ(got, std::vector<int>(static_cast<std::size_t>(ranks), 77));
    }
  }
}

}  // namespace
}  // namespace ringgrad::test
