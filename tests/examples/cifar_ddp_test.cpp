#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace ringgrad::test {
namespace {

// Images of one colour for each class.
void write_batch(const std::filesystem::path& path, int images) {
  std::ofstream file(path, std::ios::binary);
  for (int i = 0; i < images; ++i) {
    const int label = i % 10;
    file.put(static_cast<char>(label));
    file << std::string(1024, static_cast<char>(25 * label))
         << std::string(1024, static_cast<char>(250 - 25 * label))
         << std::string(1024, static_cast<char>(label % 2 * 200));
  }
}

TEST(CifarDdp, TrainsOnTwoRanksAndCountsEachTestImageOnce) {
  const TemporaryFolder folder;
  for (int batch = 1; batch <= 5; ++batch) {
    write_batch(folder / concat("data_batch_", batch, ".bin"), 600);
  }
  write_batch(folder / "test_batch.bin", 101);
  const Outcome outcome =
      ringgrad_command({"launch", "-np", "2", "--", (build_folder() / "cifar_ddp").string(),
                        folder.path().string(), "1", "20"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "[0] Train Epoch: 0 [0/1500 (0%)]\tLoss: 2."));
  EXPECT_TRUE(contains(outcome.out, "of 101 images"));
}

}  // namespace
}  // namespace ringgrad::test
