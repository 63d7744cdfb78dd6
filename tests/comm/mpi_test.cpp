// The MPI backend, under mpirun; skipped where either is missing.
#include "comm/mpi/mpi_collectives.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "kernels/backends.h"
#include "tests/support/compare.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/random_data.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace ringgrad::test {
namespace {

using comm::Communicator;
using comm::ReduceOp;

class Mpi : public testing::Test {
 protected:
  void SetUp() override {
    if (!mpirun_is_there()) {
      GTEST_SKIP() << "built without MPI, or no mpirun";
    }
  }

  static std::optional<Outcome> spawn(int ranks, const std::function<void(Communicator&)>& body,
                                      bool check = true, int seconds = 20) {
    comm::ProcessGroupOptions options = patient(seconds);
    options.backend = "mpi";
    options.check_collectives = check;
    return spawn_ranks(ranks, body, options);
  }
};

// What the ranks' values of element i are: small whole numbers, so that every sum is exact.
std::vector<float> values_of(int rank, std::int64_t count) {
  return integers<float>(count, static_cast<std::uint64_t>(rank), -8, 8);
}

TEST_F(Mpi, CollectivesAreExactOnWholeNumbers) {
  const auto outcome = spawn(3, [](Communicator& c) {
    EXPECT_EQ(c.description(), "MPI");
    const auto context = kernels::open_context("cpu", 1);
    const Stream& stream = context->compute_stream();
    for (const std::int64_t count : {0, 1, 1001, 200003}) {
      const auto n = static_cast<std::size_t>(count);
      std::vector<float> sum(n), largest(n), gathered(3 * n);
      for (int rank = 0; rank < 3; ++rank) {
        const std::vector<float> theirs = values_of(rank, count);
        for (std::size_t i = 0; i < n; ++i) {
          sum[i] += theirs[i];
          largest[i] = rank == 0 ? theirs[i] : std::max(largest[i], theirs[i]);
        }
        std::copy(theirs.begin(), theirs.end(), gathered.begin() + rank * count);
      }
      const std::vector<float> mine = values_of(c.rank(), count);
      std::vector<float> got = mine;
      c.all_reduce(got.data(), count, DType::f32, ReduceOp::sum, stream)->wait(stream);
      EXPECT_EQ(got, sum);
      c.all_reduce(mine.data(), got.data(), count, DType::f32, ReduceOp::max, stream)->wait(stream);
      EXPECT_EQ(got, largest);
      std::vector<float> all(3 * n);
      c.all_gather(mine.data(), all.data(), count, DType::f32, stream)->wait(stream);
      EXPECT_EQ(all, gathered);
      std::vector<float> part(n);
      c.reduce_scatter(all.data(), part.data(), count, DType::f32, ReduceOp::average, stream)
          ->wait(stream);
      EXPECT_EQ(part, values_of(c.rank(), count));
      c.broadcast(got.data(), n * sizeof(float), 2, stream)->wait(stream);
      std::vector<Half> halves(n, to_half(2.5F));
      c.all_reduce(halves.data(), count, DType::f16, ReduceOp::sum, stream)->wait(stream);
      for (const Half half : halves) {
        EXPECT_EQ(to_float(half), 7.5F);
      }
    }
    c.barrier(stream)->wait(stream);
  });
  if (outcome) {
    EXPECT_EQ(outcome->code, 0) << outcome->out << outcome->err;
  }
}

TEST_F(Mpi, RanksThatDisagreeAreNamed) {
  const auto outcome = spawn(2, [](Communicator& c) {
    const auto context = kernels::open_context("cpu", 1);
    const Stream& stream = context->compute_stream();
    std::vector<float> data(10);
    const std::string error = error_of([&] {
      c.all_reduce(data.data(), 10 - c.rank(), DType::f32, ReduceOp::sum, stream)->wait(stream);
    });
    std::printf("rank %d heard: %s\n", c.rank(), error.c_str());
  });
  if (outcome) {  // whose code counts for nothing: MPI cannot end in order after a failure
    for (const char* rank : {"rank 0", "rank 1"}) {
      EXPECT_TRUE(contains(
          outcome->out,
          concat(rank,
                 " heard: the ranks disagree: rank 0 calls all_reduce sum f32, 10 elements "
                 "(collective 1), rank 1 calls all_reduce sum f32, 9 elements (collective 1)")))
          << outcome->out << outcome->err;
    }
  }
}

TEST_F(Mpi, ARankThatDoesNotComeIsNamed) {
  const auto outcome = spawn(
      3,
      [](Communicator& c) {
        const auto context = kernels::open_context("cpu", 1);
        const Stream& stream = context->compute_stream();
        c.barrier(stream)->wait(stream);
        std::vector<float> data(10);
        if (c.rank() == 1) {
          std::this_thread::sleep_for(std::chrono::seconds(30));
        }
        const std::string error = error_of([&] {
          c.all_reduce(data.data(), 10, DType::f32, ReduceOp::sum, stream)->wait(stream);
        });
        std::printf("rank %d heard: %s\n", c.rank(), error.c_str());
        std::fflush(stdout);
        _exit(75);
      },
      false, 3);
  if (outcome) {
    EXPECT_TRUE(contains(outcome->out, "for rank 1\n")) << outcome->out << outcome->err;
  }
}

// Who is refused says why, and holds nobody up.
TEST_F(Mpi, ARankThatIsRefusedEndsTheJobAtOnce) {
  const TemporaryFolder folder;
  ProcessOptions process = for_mpirun();
  process.limit = std::chrono::seconds(20);
  const Outcome outcome = run_process(
      {"mpirun", "--oversubscribe", "-np", "2", "sh", "-c",
       concat("exec ", command_path(), " train --backend mpi --data synthetic:32x32 --epochs ",
              "$((1 + OMPI_COMM_WORLD_RANK)) --out ", (folder / "run").string())},
      process);
  EXPECT_EQ(outcome.code, 2) << outcome.out << outcome.err;
  EXPECT_TRUE(contains(outcome.out + outcome.err, "comes with settings")) << outcome.err;
}

TEST_F(Mpi, TrainsLikeTheRing) {
  const TemporaryFolder folder;
  ProcessOptions process = for_mpirun();
  std::string epoch[2];
  for (const int i : {0, 1}) {
    const char* backend = i == 0 ? "ring" : "mpi";
    const Outcome outcome =
        run_process({"mpirun", "--oversubscribe", "-np", "2", command_path(), "train", "--backend",
                     backend, "--data", "synthetic:32x32", "--samples", "64", "--batch-size", "8",
                     "--epochs", "1", "--out", (folder / backend).string()},
                    process);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_TRUE(contains(outcome.out, i == 0 ? "ring over shared memory" : "replicas (MPI)"));
    const std::size_t at = outcome.out.find("epoch 1/1");
    ASSERT_NE(at, std::string::npos);
    const std::size_t rate = outcome.out.rfind(", ", outcome.out.find(" images/s, ", at));
    epoch[i] = outcome.out.substr(at, rate - at);
  }
  EXPECT_EQ(epoch[0], epoch[1]) << "to four decimals";
}

}  // namespace
}  // namespace ringgrad::test
