#include <gtest/gtest.h>

#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace ringgrad::test {
namespace {

TEST(Convolution, SpreadsAPointOverItsNeighboursOnEveryDevice) {
  const std::string empty = " 0 0 0 0 0 0 0 0\n";
  const std::string row = " 0 0 0 9 9 9 0 0\n";
  for (const char* device : {"cpu", "reference", "emulated"}) {
    const Outcome outcome = run_process({(build_folder() / "convolution").string(), device});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, empty + empty + row + row + row + empty + empty + empty) << device;
  }
}

}  // namespace
}  // namespace ringgrad::test
