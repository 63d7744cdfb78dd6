// The collectives over both ways of carrying data: each must give the same bits.
#include <gtest/gtest.h>

#include <cstring>
#include <mutex>
#include <numeric>
#include <thread>

#include "comm/communicator.h"
#include "kernels/backends.h"
#include "tests/support/expect_error.h"
#include "tests/support/random_data.h"
#include "tests/support/ranks.h"

namespace ringgrad::test {
namespace {

using comm::Communicator;
using comm::ReduceOp;

// A stream for collectives on host memory.
const Stream& host_stream() {
  static const auto context = kernels::open_context("cpu", 1);
  return context->compute_stream();
}

template <class T>
std::vector<std::vector<T>> all_reduce(std::vector<std::vector<T>> inputs, ReduceOp op, Path path,
                                       bool allocated = false) {
  const Stream& stream = host_stream();
  run_ranks(
      static_cast<int>(inputs.size()),
      [&](Communicator& c) {
        std::vector<T>& mine = inputs[static_cast<std::size_t>(c.rank())];
        const auto count = static_cast<std::int64_t>(mine.size());
        const std::shared_ptr<void> memory =
            allocated ? c.allocate(mine.size() * sizeof(T) + 1) : nullptr;
        if (memory != nullptr) {
          std::copy(mine.begin(), mine.end(), static_cast<T*>(memory.get()));
          c.all_reduce(memory.get(), count, dtype_of<T>(), op, stream)->wait(stream);
          std::copy_n(static_cast<T*>(memory.get()), mine.size(), mine.begin());
        } else {
          c.all_reduce(mine.data(), count, dtype_of<T>(), op, stream)->wait(stream);
        }
      },
      path);
  return inputs;
}

std::vector<std::vector<float>> random_inputs(int ranks, std::int64_t count) {
  std::vector<std::vector<float>> inputs;
  for (int r = 0; r < ranks; ++r) {
    inputs.push_back(uniform(count, static_cast<std::uint64_t>(r)));
  }
  return inputs;
}

class CollectivesTest : public testing::TestWithParam<Path> {};

TEST_P(CollectivesTest, AllReduceIsExactForAwkwardCounts) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    for (const std::int64_t count : {0, 1, ranks - 1, ranks, ranks + 1, 1023, 50021}) {
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
        for (const auto& result : all_reduce(inputs, op, GetParam())) {
          EXPECT_EQ(result, *expected) << comm::name_of(op);
        }
      }
    }
  }
}

TEST_P(CollectivesTest, EveryElementTypeIsReduced) {
  const auto sum_is = [&](auto one, auto two, auto three) {
    using T = decltype(one);
    const std::vector<std::vector<T>> got =
        all_reduce<T>({std::vector<T>(9, one), std::vector<T>(9, two)}, ReduceOp::sum, GetParam());
    for (const std::vector<T>& result : got) {
      EXPECT_EQ(0, std::memcmp(result.data(), std::vector<T>(9, three).data(), 9 * sizeof(T)))
          << ringgrad::name_of(dtype_of<T>());
    }
  };
  sum_is(1.0, 2.0, 3.0);
  sum_is(std::int64_t{1} << 40, std::int64_t{2}, (std::int64_t{1} << 40) + 2);
  sum_is(std::uint8_t{250}, std::uint8_t{7}, std::uint8_t{1});
  sum_is(to_half(1.5F), to_half(2), to_half(3.5F));
  sum_is(to_bfloat16(1.5F), to_bfloat16(2), to_bfloat16(3.5F));
}

TEST_P(CollectivesTest, OutOfPlaceAgreesWithInPlaceAndPartialOverlapIsRefused) {
  const Stream& stream = host_stream();
  run_ranks(
      3,
      [&](Communicator& c) {
        std::vector<float> in = uniform(100, static_cast<std::uint64_t>(c.rank())), out(100);
        const std::vector<float> before = in;
        c.all_reduce(in.data(), out.data(), 100, DType::f32, ReduceOp::average, stream)
            ->wait(stream);
        EXPECT_EQ(in, before);
        c.all_reduce(in.data(), 100, DType::f32, ReduceOp::average, stream)->wait(stream);
        EXPECT_EQ(in, out);
        EXPECT_TRUE(contains(error_of([&] {
                               c.all_reduce(in.data(), in.data() + 1, 99, DType::f32, ReduceOp::sum,
                                            stream);
                             }),
                             "overlap in part"));
      },
      GetParam());
}

TEST_P(CollectivesTest, AnAverageOfIntegersIsRefusedOnEveryRank) {
  EXPECT_TRUE(contains(error_of([&] {
                         all_reduce<std::int64_t>({{1}, {2}}, ReduceOp::average, GetParam());
                       }),
                       "an average of integers"));
}

TEST_P(CollectivesTest, RanksThatDisagreeAllFailWithTheSameMessage) {
  const Stream& stream = host_stream();
  std::vector<float> data(16);
  const auto all_errors = [&](const std::function<void(Communicator&, float*)>& call) {
    std::vector<std::string> errors(3);
    std::mutex mutex;
    run_ranks(
        3,
        [&](Communicator& c) {
          std::vector<float> mine(16);
          const std::string error = error_of([&] { call(c, mine.data()); });
          const std::lock_guard<std::mutex> lock(mutex);
          errors[static_cast<std::size_t>(c.rank())] = error;
        },
        GetParam());
    EXPECT_EQ(errors[0], errors[1]);
    EXPECT_EQ(errors[1], errors[2]);
    return errors[0];
  };
  const auto odd_one = [](Communicator& c) { return c.rank() == 1; };
  EXPECT_TRUE(contains(
      all_errors([&](Communicator& c, float* x) {
        c.all_reduce(x, odd_one(c) ? 9 : 12, DType::f32, ReduceOp::sum, stream)->wait(stream);
      }),
      "rank 1 calls all_reduce sum f32, 9 elements (collective 1)"));
  EXPECT_TRUE(contains(all_errors([&](Communicator& c, float* x) {
                         c.all_reduce(x, 2, odd_one(c) ? DType::i64 : DType::f64, ReduceOp::sum,
                                      stream)
                             ->wait(stream);
                       }),
                       "rank 1 calls all_reduce sum i64, 2 elements"));
  EXPECT_TRUE(contains(all_errors([&](Communicator& c, float* x) {
                         c.all_reduce(x, 2, DType::f32, odd_one(c) ? ReduceOp::max : ReduceOp::sum,
                                      stream)
                             ->wait(stream);
                       }),
                       "rank 1 calls all_reduce max"));
  EXPECT_TRUE(contains(all_errors([&](Communicator& c, float* x) {
                         if (odd_one(c)) {
                           c.broadcast(x, 8, 0, stream)->wait(stream);
                         } else {
                           c.barrier(stream)->wait(stream);
                         }
                       }),
                       "rank 1 calls broadcast from rank 0 u8, 8 elements"));
}

TEST_P(CollectivesTest, ARankThatNeverComesIsNamedAndOneThatIsLateIsNot) {
  const Stream& stream = host_stream();
  const auto errors_when_rank_2_sleeps = [&](std::chrono::milliseconds pause) {
    std::vector<std::string> errors(3);
    run_ranks(
        3,
        [&](Communicator& c) {
          if (c.rank() == 2) {
            std::this_thread::sleep_for(pause);
          }
          errors[static_cast<std::size_t>(c.rank())] =
              error_of([&] { c.barrier(stream)->wait(stream); });
        },
        GetParam(), std::chrono::milliseconds(400));
    return errors;
  };
  for (const std::string& error : errors_when_rank_2_sleeps(std::chrono::milliseconds(1000))) {
    EXPECT_TRUE(contains(error, "waited 0.4 s in barrier (collective 1) for rank 2")) << error;
  }
  for (const std::string& error : errors_when_rank_2_sleeps(std::chrono::milliseconds(50))) {
    EXPECT_EQ(error, "no error");
  }
}

TEST_P(CollectivesTest, AnAbortEndsEveryWaitAndTheCommunicatorStaysDead) {
  const Stream& stream = host_stream();
  run_ranks(
      3,
      [&](Communicator& c) {
        if (c.rank() == 1) {
          c.abort("rank 1 has had enough");
        }
        for (int attempt = 0; attempt < 2; ++attempt) {
          EXPECT_EQ(error_of([&] { c.barrier(stream)->wait(stream); }), "rank 1 has had enough");
        }
      },
      GetParam());
}

// Who hears of a failure frees its memory at once; the others may still be reading it.
TEST_P(CollectivesTest, MemoryIsTheOwnersAgainAfterAnError) {
  const Stream& stream = host_stream();
  for (int round = 0; round < 20; ++round) {
    run_ranks(
        3,
        [&](Communicator& c) {
          for (int step = 0;; ++step) {
            const auto data = std::make_unique<std::vector<float>>(1 << 18, 1.0F);
            const std::string error = error_of([&] {
              const auto sum =
                  c.all_reduce(data->data(), 1 << 18, DType::f32, ReduceOp::sum, stream);
              if (c.rank() == round % 3 && step == 2) {
                c.abort("enough");
              }
              sum->wait(stream);
              c.broadcast(data->data(), std::size_t{1} << 20, 0, stream)->wait(stream);
            });
            if (error != "no error") {
              EXPECT_EQ(error, "enough");
              return;
            }
          }
        },
        GetParam());
  }
}

TEST_P(CollectivesTest, BroadcastReachesAllFromAnyRoot) {
  const Stream& stream = host_stream();
  for (const std::size_t count : {std::size_t{1}, std::size_t{400001}}) {
    for (int root = 0; root < 3; ++root) {
      run_ranks(
          3,
          [&](Communicator& c) {
            std::vector<std::uint8_t> mine(count), expected(count);
            std::iota(expected.begin(), expected.end(), std::uint8_t{7});
            if (c.rank() == root) {
              mine = expected;
            }
            c.broadcast(mine.data(), count, root, stream)->wait(stream);
            EXPECT_EQ(mine, expected);
          },
          GetParam());
    }
  }
}

TEST_P(CollectivesTest, AllGatherAndReduceScatterAreHalvesOfAnAllReduce) {
  const Stream& stream = host_stream();
  for (const std::int64_t part : {0, 1, 77, 100003}) {
    run_ranks(
        3,
        [&](Communicator& c) {
          const std::vector<float> in =
              integers(3 * part, static_cast<std::uint64_t>(c.rank()), -100, 100);
          std::vector<float> whole = in, gathered(in.size());
          std::vector<float> mine(static_cast<std::size_t>(part));
          c.all_reduce(whole.data(), 3 * part, DType::f32, ReduceOp::sum, stream)->wait(stream);
          c.reduce_scatter(in.data(), mine.data(), part, DType::f32, ReduceOp::sum, stream)
              ->wait(stream);
          c.all_gather(mine.data(), gathered.data(), part, DType::f32, stream)->wait(stream);
          EXPECT_EQ(gathered, whole);
        },
        GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, CollectivesTest,
                         testing::Values(Path::shared, Path::messages, Path::links, Path::pieces),
                         [](const auto& path) { return name_of(path.param); });

TEST(Collectives, FloatsHaveTheSameBitsOnEveryRankAndPath) {
  for (const int ranks : {2, 3, 4, 5}) {
    for (const std::int64_t count : {1001, 5000, 200003}) {  // small, in between, in pieces
      SCOPED_TRACE(concat(ranks, " ranks, ", count, " elements"));
      const auto inputs = random_inputs(ranks, count);
      const auto expected = all_reduce(inputs, ReduceOp::average, Path::messages);
      for (const auto& result : expected) {
        EXPECT_EQ(result, expected.front());
      }
      EXPECT_EQ(all_reduce(inputs, ReduceOp::average, Path::links), expected);
      EXPECT_EQ(all_reduce(inputs, ReduceOp::average, Path::pieces), expected);
      EXPECT_EQ(all_reduce(inputs, ReduceOp::average, Path::shared), expected);
      EXPECT_EQ(all_reduce(inputs, ReduceOp::average, Path::shared, true), expected);
    }
  }
}

}  // namespace
}  // namespace ringgrad::test
