#include <gtest/gtest.h>

#include <fstream>

#include "data/dataset.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace ringgrad::test {
namespace {

namespace fs = std::filesystem;

class FolderTest : public testing::Test {
 protected:
  void add(const std::string& name, const char* fixture = "rgb.jpg") {
    fs::create_directories((folder_ / name).parent_path());
    fs::copy_file(source_folder() / "tests/data/fixtures" / fixture, folder_ / name);
  }
  std::unique_ptr<data::Dataset> open(data::Split split, const data::DatasetOptions& options = {}) {
    return data::open_dataset("folder:" + folder_.path().string(), split, options);
  }
  TemporaryFolder folder_;
};

TEST_F(FolderTest, ClassesAreNumberedByNameAndHiddenThingsIgnored) {
  add("train/bees/1.jpg");
  add("train/ants/b.JPEG");
  add("train/ants/a.png", "rgb.png");
  add("train/ants/.hidden.jpg");
  add("train/.thumbs/x.jpg");
  std::ofstream(folder_ / "train/ants/notes.gif") << "x";
  const auto dataset = open(data::Split::train);
  EXPECT_EQ(dataset->classes(), (std::vector<std::string>{"ants", "bees"}));
  ASSERT_EQ(dataset->size(), 3);
  EXPECT_EQ(dataset->label(2), 1);
  EXPECT_TRUE(contains(dataset->source(0), "ants/a.png"));
  ASSERT_EQ(dataset->warnings().size(), 2U);
  EXPECT_TRUE(contains(dataset->warnings()[0], "2 names that start with a dot are ignored"));
  EXPECT_TRUE(contains(dataset->warnings()[1], "notes.gif"));
}

TEST_F(FolderTest, ValidationUsesTheTrainingsClasses) {
  add("train/ants/1.jpg");
  add("train/bees/1.jpg");
  add("val/bees/1.jpg");
  data::DatasetOptions options;
  options.known_classes = open(data::Split::train)->classes();
  EXPECT_EQ(open(data::Split::test, options)->label(0), 1);
  add("val/wasps/1.jpg");
  EXPECT_TRUE(contains(error_of([&] { open(data::Split::test, options); }),
                       "wasps is a class that the training split does not have"));
}

TEST_F(FolderTest, AnEmptyClassIsAnErrorUnlessAllowed) {
  add("train/ants/1.jpg");
  fs::create_directories(folder_ / "train/bees");
  EXPECT_TRUE(
      contains(error_of([&] { open(data::Split::train); }), "train/bees has no JPEG or PNG"));
  data::DatasetOptions options;
  options.allow_empty_classes = true;
  EXPECT_EQ(open(data::Split::train, options)->classes().size(), 2U);

  options = {};
  options.skip_bad = true;
  std::ofstream(folder_ / "train/bees/1.jpg") << "text";
  EXPECT_TRUE(contains(error_of([&] { open(data::Split::train, options); }),
                       "train/bees has no JPEG or PNG files that can be read"));
}

TEST_F(FolderTest, BadFilesAreNamedOrSkippedAndListed) {
  add("train/ants/1.jpg");
  add("train/ants/2.jpg");
  fs::resize_file(folder_ / "train/ants/2.jpg", 100);
  std::ofstream(folder_ / "train/ants/3.jpg") << "text";
  const auto dataset = open(data::Split::train);
  EXPECT_TRUE(contains(error_of([&] { dataset->image(1); }), "2.jpg: the file is cut short"));
  data::DatasetOptions options;
  options.skip_bad = true;
  const auto good = open(data::Split::train, options);
  EXPECT_EQ(good->size(), 1);
  ASSERT_EQ(good->warnings().size(), 2U);
  EXPECT_TRUE(contains(good->warnings()[1], "3.jpg: neither a JPEG nor a PNG file"));
}

TEST_F(FolderTest, MissingFoldersAreNamed) {
  EXPECT_TRUE(contains(error_of([&] { open(data::Split::train); }), "has no folder train"));
  fs::create_directories(folder_ / "train");
  EXPECT_TRUE(contains(error_of([&] { open(data::Split::train); }), "holds no class folders"));
  EXPECT_TRUE(
      contains(error_of([] { data::open_dataset("folder:/nonexistent", data::Split::train); }),
               "/nonexistent is not a folder"));
}

TEST(DatasetSpec, OthersAreRefused) {
  for (const char* spec : {"", "mnist:x", "idx", "idx:", "synthetic:", "folder"}) {
    EXPECT_TRUE(
        contains(error_of([&] { data::open_dataset(spec, data::Split::train); }), "expected"));
  }
  for (const char* spec : {"synthetic:32", "synthetic:0x5", "synthetic:32x32x3", "synthetic:axb"}) {
    EXPECT_TRUE(contains(error_of([&] { data::open_dataset(spec, data::Split::train); }), "HxW"));
  }
}

}  // namespace
}  // namespace ringgrad::test
