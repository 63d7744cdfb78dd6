// A program outside the tree builds against the installed package and runs.
#include <gtest/gtest.h>

#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace ringgrad::test {
namespace {

TEST(FullPackage, AConsumerWithItsOwnModuleAndOperationBuildsAndRuns) {
  const TemporaryFolder folder;
  const std::string prefix = (folder / "prefix").string();
  const std::string build = (folder / "build").string();
  const std::string source = (source_folder() / "tests/structure/consumer").string();
  ProcessOptions options;
  options.limit = std::chrono::seconds(500);
  for (const std::vector<std::string>& step :
       {std::vector<std::string>{"cmake", "--install", build_folder().string(), "--prefix", prefix},
        {"cmake", "-S", source, "-B", build, "-G", "Ninja", "-DCMAKE_PREFIX_PATH=" + prefix},
        {"cmake", "--build", build}}) {
    const Outcome outcome = run_process(step, options);
    ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  }
  const Outcome outcome = run_process({build + "/consumer"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "gradient 12\n");
  EXPECT_EQ(run_process({prefix + "/bin/ringgrad", "--version"}).code, 0);
}

}  // namespace
}  // namespace ringgrad::test
