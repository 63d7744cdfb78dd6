// DataLoader: batches in order, decoded and augmented by worker threads ahead of their use.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "data/dataset.h"
#include "data/transform.h"
#include "runtime/buffer.h"

namespace ringgrad::data {

// Pixels and labels in pinned memory, as the copy to the device wants them.
struct Batch {
  std::int64_t n = 0;  // images
  int height = 0, width = 0;
  Buffer pixels;  // (N,H,W,3) bytes
  Buffer labels;  // (N) i32

  std::uint8_t* pixel_data() const { return static_cast<std::uint8_t*>(pixels.data()); }
  std::int32_t* label_data() const { return static_cast<std::int32_t*>(labels.data()); }
};

// Pinned memory of batches that have been used, for the next ones: of a Context, for all its
// loaders.
class BatchMemory {
 public:
  Buffer take(Context& context, std::size_t bytes);
  void give(Buffer buffer);

 private:
  std::mutex mutex_;
  std::map<std::size_t, std::vector<Buffer>> free_;  // by size
};

class DataLoader {
 public:
  struct Options {
    std::int64_t batch_size = 64;
    int workers = 2;   // 0: the caller's thread does the work
    int prefetch = 2;  // batches under way for each worker
    bool drop_last = false;
    std::uint64_t seed = 0;
  };

  // One pass over `indices`. What a sample looks like depends on (seed, epoch, index) alone. The
  // data set and the context (whose pinned memory the batches use) must outlive the loader.
  DataLoader(Context& context, const Dataset& dataset, Transform transform, Options options,
             std::int64_t epoch, std::vector<std::int64_t> indices);
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;
  ~DataLoader();

  std::int64_t batches() const;
  // The next batch, or null after the last. An Error of a worker arrives here: a file that cannot
  // be decoded, images of different sizes in a batch, a label outside the classes.
  std::shared_ptr<Batch> next();

 private:
  std::shared_ptr<Batch> make_batch(std::int64_t number) const;
  void work();

  Context& context_;
  BatchMemory& memory_;
  const Dataset& dataset_;
  const Transform transform_;
  const Options options_;
  const std::int64_t epoch_;
  const std::vector<std::int64_t> indices_;

  struct Made {
    std::shared_ptr<Batch> batch;
    std::exception_ptr error;
  };
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, Made> made_;
  std::int64_t next_to_make_ = 0;
  std::int64_t next_to_give_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace ringgrad::data
