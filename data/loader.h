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

class DataLoader;

// Threads that make batches, for all loaders of a process: the loader that is least ahead of its
// reader is served first, and each has a bounded queue of its own.
class LoaderPool {
 public:
  explicit LoaderPool(int workers);
  LoaderPool(const LoaderPool&) = delete;
  LoaderPool& operator=(const LoaderPool&) = delete;
  ~LoaderPool();  // after its loaders

  int workers() const { return static_cast<int>(workers_.size()); }

 private:
  friend class DataLoader;
  DataLoader* neediest() const;
  void work();

  std::mutex mutex_;  // of the queues of all loaders, too
  std::condition_variable room_;
  std::vector<DataLoader*> loaders_;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

class DataLoader {
 public:
  struct Options {
    std::int64_t batch_size = 64;
    int workers = 2;   // 0: the caller's thread does the work
    int prefetch = 2;  // batches made ahead of their use for each worker
    bool drop_last = false;
    std::uint64_t seed = 0;
    LoaderPool* pool = nullptr;  // whose workers do the work, instead of the loader's own
  };

  // One pass over `indices`. What a sample looks like depends on (seed, epoch, index) alone. The
  // data set, the context (whose pinned memory the batches use) and the pool must outlive the
  // loader.
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
  friend class LoaderPool;
  std::shared_ptr<Batch> make_batch(std::int64_t number) const;
  // Those made or under way and not yet given. Under the pool's mutex, as what follows.
  std::int64_t ahead() const { return next_to_make_ - next_to_give_; }
  bool has_room() const;

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
  std::unique_ptr<LoaderPool> own_pool_;
  LoaderPool& pool_;
  std::condition_variable changed_;
  std::map<std::int64_t, Made> made_;
  std::int64_t next_to_make_ = 0;
  std::int64_t next_to_give_ = 0;
  int under_way_ = 0;
};

}  // namespace ringgrad::data
