#include "runtime/parallel.h"

#include <gtest/gtest.h>

#include <vector>

namespace ringgrad::test {
namespace {

TEST(ParallelFor, CoversEveryItemOnceInTheSameCut) {
  for (const int threads : {1, 2, 3, 8}) {
    for (const std::int64_t n : {0, 1, 2, 7, 1000}) {
      for (const std::int64_t grain : {1, 10, 5000}) {
        const int chunks = parallel_chunks(threads, n, grain);
        std::vector<int> seen(static_cast<std::size_t>(n));
        std::vector<std::int64_t> begins(static_cast<std::size_t>(chunks), -1);
        parallel_for(threads, n, grain, [&](int chunk, std::int64_t begin, std::int64_t end) {
          begins[static_cast<std::size_t>(chunk)] = begin;
          for (std::int64_t i = begin; i < end; ++i) {
            ++seen[static_cast<std::size_t>(i)];
          }
        });
        EXPECT_EQ(seen, std::vector<int>(static_cast<std::size_t>(n), 1));
        for (int chunk = 0; chunk < chunks; ++chunk) {
          EXPECT_EQ(begins[static_cast<std::size_t>(chunk)], n * chunk / chunks);
        }
        EXPECT_LE(chunks, threads);
      }
    }
  }
}

}  // namespace
}  // namespace ringgrad::test
