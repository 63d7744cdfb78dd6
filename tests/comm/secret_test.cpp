#include "comm/secret.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "runtime/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace ringgrad::test {
namespace {

TEST(Secret, OfAHostStaysTheSameAndIsItsUsersAlone) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "secret";
  const std::string secret = comm::host_secret(file);
  EXPECT_EQ(secret.size(), 64U);
  EXPECT_EQ(comm::host_secret(file), secret);
  EXPECT_NE(comm::host_secret(folder / "another"), secret);
  struct stat status {};
  ASSERT_EQ(stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST(Secret, AFileThatOthersCanReadOrThatIsALinkIsRefused) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "secret";
  comm::host_secret(file);
  std::filesystem::create_symlink(file, folder / "link");
  EXPECT_TRUE(contains(error_of([&] { comm::host_secret(folder / "link"); }), "cannot open"));
  chmod(file.c_str(), 0640);
  EXPECT_TRUE(contains(error_of([&] { comm::host_secret(file); }), "is open to other users"));
}

}  // namespace
}  // namespace ringgrad::test
