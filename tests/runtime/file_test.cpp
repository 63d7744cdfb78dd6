#include "runtime/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace ringgrad::test {
namespace {

TEST(File, AppearsWholeOrNotAtAll) {
  const TemporaryFolder folder;
  const auto path = folder / "file";
  write_file(path, "old");
  {
    AtomicFile file(path);
    file.write("half", 4);
    EXPECT_EQ(read_file(path), "old");
  }
  EXPECT_EQ(read_file(path), "old") << "an abandoned write leaves the old content";
  write_file(path, "new");
  EXPECT_EQ(read_file(path), "new");
  const auto entries = std::distance(std::filesystem::directory_iterator(folder.path()), {});
  EXPECT_EQ(entries, 1) << "no temporary is left";
}

TEST(File, ErrorsNameFileAndReason) {
  EXPECT_TRUE(contains(error_of([] { read_file("/nonexistent/x"); }),
                       "cannot read /nonexistent/x: No such file or directory"));
  EXPECT_TRUE(contains(error_of([] { write_file("/nonexistent/x", "y"); }),
                       "cannot write /nonexistent/x: No such file or directory"));
}

// A limit on file sizes fails a write half-way, as a full disk does.
TEST(File, AFullDiskLeavesTheOldContent) {
  const TemporaryFolder folder;
  const auto path = folder / "file";
  write_file(path, "old");
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit low{4096, before.rlim_max};
  std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &low);
  const std::string error = error_of([&] { write_file(path, std::string(100000, 'x')); });
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_TRUE(contains(error, "cannot write " + path.string() + ": File too large"));
  EXPECT_EQ(read_file(path), "old");
}

}  // namespace
}  // namespace ringgrad::test
