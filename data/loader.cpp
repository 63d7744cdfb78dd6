#include "data/loader.h"

#include <algorithm>
#include <cstring>

#include "runtime/error.h"

namespace ringgrad::data {

Buffer BatchMemory::take(Context& context, std::size_t bytes) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<Buffer>& same_size = free_[bytes];
    if (!same_size.empty()) {
      Buffer buffer = std::move(same_size.back());
      same_size.pop_back();
      return buffer;
    }
  }
  return Buffer::pinned(context, bytes);
}

void BatchMemory::give(Buffer buffer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  free_[buffer.bytes()].push_back(std::move(buffer));
}

LoaderPool::LoaderPool(int workers) {
  RINGGRAD_CHECK(workers >= 0 && workers <= 1024, "workers ", workers, "; expected 0 to 1024");
  for (int i = 0; i < workers; ++i) {
    workers_.emplace_back([this] { work(); });
  }
}

LoaderPool::~LoaderPool() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  room_.notify_all();
  for (std::thread& worker : workers_) {
    worker.join();
  }
}

DataLoader* LoaderPool::neediest() const {
  DataLoader* found = nullptr;
  for (DataLoader* loader : loaders_) {
    if (loader->has_room() && (found == nullptr || loader->ahead() < found->ahead())) {
      found = loader;
    }
  }
  return found;
}

void LoaderPool::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    DataLoader* loader = nullptr;
    room_.wait(lock, [&] { return stopping_ || (loader = neediest()) != nullptr; });
    if (stopping_) {
      return;
    }
    const std::int64_t number = loader->next_to_make_++;
    ++loader->under_way_;
    lock.unlock();
    DataLoader::Made made;
    try {
      loader->context_.device().make_current();
      made.batch = loader->make_batch(number);
    } catch (...) {
      made.error = std::current_exception();
    }
    lock.lock();
    loader->made_[number] = std::move(made);
    --loader->under_way_;
    loader->changed_.notify_all();
  }
}

DataLoader::DataLoader(Context& context, const Dataset& dataset, Transform transform,
                       Options options, std::int64_t epoch, std::vector<std::int64_t> indices)
    : context_(context),
      memory_(context.state<BatchMemory>()),
      dataset_(dataset),
      transform_(transform),
      options_(options),
      epoch_(epoch),
      indices_(std::move(indices)),
      own_pool_(options.pool == nullptr ? std::make_unique<LoaderPool>(options.workers) : nullptr),
      pool_(options.pool == nullptr ? *own_pool_ : *options.pool) {
  RINGGRAD_CHECK(options.batch_size >= 1, "batch size ", options.batch_size,
                 "; expected 1 or more");
  {
    const std::lock_guard<std::mutex> lock(pool_.mutex_);
    pool_.loaders_.push_back(this);
  }
  pool_.room_.notify_all();
}

DataLoader::~DataLoader() {
  std::unique_lock<std::mutex> lock(pool_.mutex_);
  pool_.loaders_.erase(std::find(pool_.loaders_.begin(), pool_.loaders_.end(), this));
  changed_.wait(lock, [&] { return under_way_ == 0; });
}

bool DataLoader::has_room() const {
  const auto workers = static_cast<std::int64_t>(pool_.workers());
  const auto sharing = static_cast<std::int64_t>(pool_.loaders_.size());
  const std::int64_t each = std::max<std::int64_t>(1, workers / sharing);
  return next_to_make_ < batches() && ahead() < each * std::max(1, options_.prefetch);
}

std::int64_t DataLoader::batches() const {
  const auto n = static_cast<std::int64_t>(indices_.size());
  return options_.drop_last ? n / options_.batch_size
                            : (n + options_.batch_size - 1) / options_.batch_size;
}

std::shared_ptr<Batch> DataLoader::make_batch(std::int64_t number) const {
  const std::int64_t begin = number * options_.batch_size;
  const std::int64_t end =
      std::min(begin + options_.batch_size, static_cast<std::int64_t>(indices_.size()));
  std::shared_ptr<Batch> batch(std::make_unique<Batch>().release(),
                               [&memory = memory_](Batch* used) {
                                 const std::unique_ptr<Batch> owned(used);
                                 memory.give(std::move(owned->pixels));
                                 memory.give(std::move(owned->labels));
                               });
  batch->n = end - begin;
  batch->labels = memory_.take(context_, static_cast<std::size_t>(batch->n) * sizeof(std::int32_t));
  std::size_t image_bytes = 0;
  for (std::int64_t i = 0; i < batch->n; ++i) {
    const std::int64_t index = indices_[static_cast<std::size_t>(begin + i)];
    RandomStream random = augmentation_stream(options_.seed, epoch_, index);
    const Image image = transform_(dataset_.image(index), random);
    if (i == 0) {
      batch->height = image.height;
      batch->width = image.width;
      image_bytes = image.pixels.size();
      batch->pixels = memory_.take(context_, image_bytes * static_cast<std::size_t>(batch->n));
    }
    RINGGRAD_CHECK(image.height == batch->height && image.width == batch->width,
                   dataset_.source(index), ": ", image.width, "x", image.height,
                   " pixels in a batch of ", batch->width, "x", batch->height,
                   "; use a transform that gives one size (--transform imagenet)");
    std::memcpy(batch->pixel_data() + static_cast<std::size_t>(i) * image_bytes,
                image.pixels.data(), image_bytes);
    const std::int32_t label = dataset_.label(index);
    RINGGRAD_CHECK(label >= 0 && label < static_cast<std::int32_t>(dataset_.classes().size()),
                   dataset_.source(index), ": label ", label, " of sample ", index,
                   " is outside the ", dataset_.classes().size(), " classes");
    batch->label_data()[i] = label;
  }
  return batch;
}

std::shared_ptr<Batch> DataLoader::next() {
  if (next_to_give_ >= batches()) {
    return nullptr;
  }
  if (pool_.workers() == 0) {
    return make_batch(next_to_give_++);
  }
  Made made;
  {
    // Bounded by the workers: each wait here ends when the batch is made or has failed.
    std::unique_lock<std::mutex> lock(pool_.mutex_);
    changed_.wait(lock, [&] { return made_.count(next_to_give_) > 0; });
    made = std::move(made_[next_to_give_]);
    made_.erase(next_to_give_);
    ++next_to_give_;
  }
  pool_.room_.notify_one();
  if (made.error) {
    std::rethrow_exception(made.error);
  }
  return made.batch;
}

}  // namespace ringgrad::data
