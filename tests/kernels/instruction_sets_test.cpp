// Our loops on every instruction set: the tests that hold optimizer updates to the reference's
// bits, and all others of the loops, once more under RINGGRAD_ISA.
#include <gtest/gtest.h>

#include <filesystem>

#include "runtime/cpu_features.h"
#include "tests/support/process.h"

namespace ringgrad::test {
namespace {

class InstructionSetTest : public testing::TestWithParam<std::string> {};

TEST_P(InstructionSetTest, PassesTheTestsOfTheLoops) {
  const InstructionSet wanted =
      GetParam() == "avx2" ? InstructionSet::avx2 : InstructionSet::portable;
  if (wanted > cpu_features().best) {
    GTEST_SKIP() << "this processor has no " << GetParam();
  }
  ProcessOptions options;
  options.environment = {"RINGGRAD_ISA=" + GetParam()};
  const Outcome outcome = run_process(
      {std::filesystem::read_symlink("/proc/self/exe"),
       "--gtest_filter=*SgdTest*/cpu:*BatchNorm*/cpu:*Pool2d*/cpu:*Elementwise*/cpu:*Convert*/cpu"},
      options);
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_NE(outcome.out.find("[  PASSED  ]"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Sets, InstructionSetTest, testing::Values("portable", "avx2"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace ringgrad::test
