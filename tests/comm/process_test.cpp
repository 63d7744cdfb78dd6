// Ranks as processes: the same bits as threads, and what happens when one of them dies.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "kernels/backends.h"
#include "tests/support/expect_error.h"
#include "tests/support/random_data.h"
#include "tests/support/ranks.h"

namespace ringgrad::test {
namespace {

using comm::Communicator;
using comm::ReduceOp;

void expect_ok(const std::optional<Outcome>& outcome) {
  if (outcome) {
    EXPECT_EQ(outcome->code, 0) << outcome->out << outcome->err;
  }
}

// Averages of random floats, small, large, in shared and in foreign memory, against threads'.
void expect_the_bits_of_threads(Communicator& c) {
  const auto context = kernels::open_context("cpu", 1);
  const Stream& stream = context->compute_stream();
  for (const std::int64_t count : {1, 1001, 200003}) {
    std::vector<float> expected;
    run_ranks(
        c.size(),
        [&](Communicator& thread) {
          std::vector<float> mine = uniform(count, static_cast<std::uint64_t>(thread.rank()));
          thread.all_reduce(mine.data(), count, DType::f32, ReduceOp::average, stream)
              ->wait(stream);
          if (thread.rank() == 0) {
            expected = mine;
          }
        },
        Path::messages);
    const std::vector<float> input = uniform(count, static_cast<std::uint64_t>(c.rank()));
    std::vector<float> mine = input;
    c.all_reduce(mine.data(), count, DType::f32, ReduceOp::average, stream)->wait(stream);
    EXPECT_EQ(mine, expected);
    if (const auto memory = c.allocate(input.size() * sizeof(float))) {
      float* shared = static_cast<float*>(memory.get());
      std::copy(input.begin(), input.end(), shared);
      c.all_reduce(shared, count, DType::f32, ReduceOp::average, stream)->wait(stream);
      EXPECT_EQ(std::vector<float>(shared, shared + count), expected);
      c.broadcast(shared, 4, c.size() - 1, stream)->wait(stream);
      c.barrier(stream)->wait(stream);
    }
  }
}

TEST(Processes, SharedMemoryHasTheBitsOfThreads) {
  expect_ok(spawn_ranks(3, expect_the_bits_of_threads));
}

TEST(Processes, TcpHasTheBitsOfThreads) {
  expect_ok(spawn_ranks(3, expect_the_bits_of_threads, patient(20, "tcp")));
}

TEST(FullProcesses, EightRanksHaveTheBitsOfThreads) {
  expect_ok(spawn_ranks(8, expect_the_bits_of_threads));
}

// Rank 1 does something to itself; the others say what they hear, and how soon.
std::optional<Outcome> when_rank_1(const std::function<void()>& suffers,
                                   const std::string& transport) {
  return spawn_ranks(
      3,
      [&](Communicator& c) {
        const auto context = kernels::open_context("cpu", 1);
        const Stream& stream = context->compute_stream();
        std::vector<float> data(1 << 20);
        const auto start = std::chrono::steady_clock::now();
        const std::string error = error_of([&] {
          for (int step = 0; step < 1000000; ++step) {
            if (c.rank() == 1 && step == 20) {
              suffers();
            }
            c.all_reduce(data.data(), 1 << 20, DType::f32, ReduceOp::sum, stream)->wait(stream);
          }
        });
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        std::printf("rank %d heard: %s (%s)\n", c.rank(), error.c_str(),
                    took.count() < 8 ? "soon" : "late");
        std::fflush(stdout);
        _exit(75);
      },
      patient(3, transport));
}

TEST(Processes, ARankThatIsKilledIsNamedByAllOthers) {
  for (const char* transport : {"shared", "tcp"}) {
    const auto outcome = when_rank_1([] { kill(getpid(), SIGKILL); }, transport);
    if (outcome) {
      EXPECT_EQ(outcome->code, 128 + SIGKILL);
      EXPECT_TRUE(contains(outcome->out, "rank 0 heard: rank 1 ")) << outcome->out;
      EXPECT_TRUE(contains(outcome->out, "rank 2 heard: rank 1 ")) << outcome->out;
      EXPECT_FALSE(contains(outcome->out, "late")) << outcome->out;
    }
  }
}

TEST(FullProcesses, ARankThatIsStoppedRunsIntoTheTimeoutOfTheOthers) {
  for (const char* transport : {"shared", "tcp"}) {
    const auto outcome = when_rank_1([] { kill(getpid(), SIGSTOP); }, transport);
    if (outcome) {
      EXPECT_EQ(outcome->code, 75);
      EXPECT_TRUE(contains(outcome->out, "for rank 1")) << outcome->out;
    }
  }
}

TEST(Processes, ARankThatIsLateIsWaitedFor) {
  expect_ok(spawn_ranks(2, [](Communicator& c) {
    const auto context = kernels::open_context("cpu", 1);
    if (c.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    }
    c.barrier(context->compute_stream())->wait(context->compute_stream());
  }));
}

void one_is_slow_each_time(Communicator& c) {
  const auto context = kernels::open_context("cpu", 1);
  const Stream& stream = context->compute_stream();
  std::vector<float> data(100000);
  for (int step = 0; step < 20; ++step) {
    if (c.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    std::fill(data.begin(), data.end(), static_cast<float>(c.rank() + step));
    c.all_reduce(data.data(), 100000, DType::f32, ReduceOp::sum, stream)->wait(stream);
    EXPECT_EQ(data, std::vector<float>(100000, static_cast<float>(3 + 3 * step)));
  }
}

TEST(Processes, ARankThatIsSlowIsWaitedForEachTime) {
  expect_ok(spawn_ranks(3, one_is_slow_each_time));
}

TEST(Processes, ARankThatIsSlowIsWaitedForEachTimeOverTcp) {
  expect_ok(spawn_ranks(3, one_is_slow_each_time, patient(20, "tcp")));
}

// The second of the same rank is refused, with a message, and the job goes on.
TEST(Processes, ARankThatIsStartedTwiceHarmsNothing) {
  expect_ok(spawn_ranks(2, [](Communicator& c) {
    const auto context = kernels::open_context("cpu", 1);
    const Stream& stream = context->compute_stream();
    if (c.rank() == 1) {
      const auto place = comm::placement_from(comm::process_environment, "");
      EXPECT_TRUE(contains(error_of([&] { comm::join_process_group(*place, patient(5)); }),
                           "rank 1 is here already"));
    }
    float sum = 1;
    c.all_reduce(&sum, 1, DType::f32, ReduceOp::sum, stream)->wait(stream);
    EXPECT_EQ(sum, 2);
  }));
}

}  // namespace
}  // namespace ringgrad::test
