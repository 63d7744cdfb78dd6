#include "data/loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "data/sampler.h"
#include "kernels/backends.h"
#include "tests/support/expect_error.h"

namespace ringgrad::test {
namespace {

// Images of one size, or not; labels in range, or not; a sample that cannot be read, or not.
class FakeDataset : public data::Dataset {
 public:
  std::int64_t size() const override { return 23; }
  const std::vector<std::string>& classes() const override { return classes_; }
  std::int32_t label(std::int64_t index) const override {
    return index == bad_label ? 3 : static_cast<std::int32_t>(index % 3);
  }
  data::Image image(std::int64_t index) const override {
    ++read;
    RINGGRAD_CHECK(index != bad_image, "photo-", index, ".jpg: the file is cut short");
    const int width = index == odd_size ? 31 : 32;
    data::Image image{32, width, {}};
    image.pixels.assign(static_cast<std::size_t>(32 * width * 3), static_cast<std::uint8_t>(index));
    image.pixels[5] = 200;
    return image;
  }
  std::string source(std::int64_t index) const override { return concat("photo-", index); }

  std::int64_t bad_label = -1, bad_image = -1, odd_size = -1;
  mutable std::atomic<int> read{0};

 private:
  std::vector<std::string> classes_ = {"a", "b", "c"};
};

class LoaderTest : public testing::Test {
 protected:
  // All bytes of an epoch, behind one another.
  std::vector<std::uint8_t> epoch(int workers, std::int64_t number, bool drop_last = false) {
    std::vector<std::int64_t> indices(23);
    std::iota(indices.begin(), indices.end(), std::int64_t{0});
    data::DataLoader::Options options;
    options.batch_size = 5;
    options.workers = workers;
    options.pool = pool_;
    options.drop_last = drop_last;
    data::DataLoader loader(*context_, dataset_, {data::TransformKind::cifar, true}, options,
                            number, indices);
    std::vector<std::uint8_t> all;
    std::int64_t batches = 0;
    while (const auto batch = loader.next()) {
      ++batches;
      all.insert(all.end(), batch->pixel_data(),
                 batch->pixel_data() + batch->n * batch->height * batch->width * 3);
      for (std::int64_t i = 0; i < batch->n; ++i) {
        all.push_back(static_cast<std::uint8_t>(batch->label_data()[i]));
      }
    }
    EXPECT_EQ(batches, loader.batches());
    return all;
  }

  std::unique_ptr<Context> context_ = kernels::open_context("cpu", 1);
  FakeDataset dataset_;
  data::LoaderPool* pool_ = nullptr;
};

TEST_F(LoaderTest, BytesDoNotDependOnTheNumberOfWorkers) {
  const auto none = epoch(0, 3);
  EXPECT_EQ(none.size(), 23U * (32 * 32 * 3 + 1));
  EXPECT_EQ(epoch(1, 3), none);
  EXPECT_EQ(epoch(4, 3), none);
  EXPECT_NE(epoch(4, 4), none) << "augmentation changes with the epoch";
}

TEST_F(LoaderTest, DropLastLeavesThePartialBatchOut) {
  EXPECT_EQ(epoch(2, 0, true).size(), 20U * (32 * 32 * 3 + 1));
}

TEST_F(LoaderTest, WorkersErrorsReachTheCaller) {
  for (const int workers : {0, 3}) {
    dataset_.bad_image = 12;
    EXPECT_EQ(error_of([&] { epoch(workers, 0); }), "photo-12.jpg: the file is cut short");
    dataset_.bad_image = -1;
    dataset_.bad_label = 7;
    EXPECT_EQ(error_of([&] { epoch(workers, 0); }),
              "photo-7: label 3 of sample 7 is outside the 3 classes");
    dataset_.bad_label = -1;
    dataset_.odd_size = 22;
    EXPECT_TRUE(
        contains(error_of([&] { epoch(workers, 0); }), "photo-22: 31x32 pixels in a batch of"));
    dataset_.odd_size = -1;
  }
}

TEST_F(LoaderTest, LoadersOfOnePoolGiveTheBytesOfTheirOwn) {
  const auto alone = epoch(0, 3);
  data::LoaderPool pool(3);
  pool_ = &pool;
  std::vector<std::vector<std::uint8_t>> together(4);
  std::vector<std::thread> readers;
  for (auto& bytes : together) {
    readers.emplace_back([&] { bytes = epoch(0, 3); });
  }
  for (std::thread& reader : readers) {
    reader.join();
  }
  for (const auto& bytes : together) {
    EXPECT_EQ(bytes, alone);
  }
}

// A reader that does not read takes its queue's worth of work and no more; the others go on.
TEST_F(LoaderTest, ALoaderThatNobodyReadsDoesNotHoldUpTheOthers) {
  data::LoaderPool pool(2);
  pool_ = &pool;
  data::DataLoader::Options options;
  options.batch_size = 1;
  options.pool = &pool;
  const data::DataLoader idle(*context_, dataset_, {data::TransformKind::to_tensor, true}, options,
                              0, std::vector<std::int64_t>(1000, 0));
  epoch(0, 0);
  EXPECT_LE(dataset_.read, 23 + 4);
}

TEST_F(LoaderTest, MayBeAbandoned) {
  data::DataLoader::Options options;
  options.batch_size = 2;
  options.workers = 3;
  data::DataLoader loader(*context_, dataset_, {data::TransformKind::to_tensor, true}, options, 0,
                          {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(loader.next()->n, 2);
}

}  // namespace
}  // namespace ringgrad::test
