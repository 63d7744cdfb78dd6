#include "runtime/context.h"

#include "runtime/error.h"

namespace ringgrad {
namespace {

DeviceTable& made_current(DeviceTable& device, int threads) {
  RINGGRAD_CHECK(threads >= 1 && threads <= 1024, "a replica has 1 to 1024 threads; ", threads,
                 " were asked for");
  device.make_current();
  return device;
}

}  // namespace

std::size_t Context::CacheHash::operator()(const CacheKey& key) const {
  std::size_t hash = key.first.hash_code();
  for (const std::int64_t value : key.second) {
    hash = (hash ^ static_cast<std::size_t>(value)) * std::size_t{0x9E3779B97F4A7C15U};
    hash ^= hash >> 29;
  }
  return hash;
}

Context::Context(std::unique_ptr<DeviceTable> device, const kernels::OperationTable& operations,
                 int threads)
    : device_(std::move(device)),
      operations_(operations),
      threads_(threads),
      compute_stream_(made_current(*device_, threads)),
      copy_stream_(*device_),
      arena_(*device_),
      status_word_(
          static_cast<StatusWord*>(arena_.allocate(sizeof(StatusWord), compute_stream_.handle()))) {
  device_->fill_zero(status_word_, sizeof(StatusWord), compute_stream_.handle());
}

Context::~Context() {
  compute_stream_.synchronize();
  cache_.clear();
  arena_.release(status_word_, sizeof(StatusWord), compute_stream_.handle());
}

void Context::check_status() {
  StatusWord found;
  device_->copy(&found, status_word_, sizeof found, CopyKind::device_to_host,
                compute_stream_.handle());
  compute_stream_.synchronize();
  if (found.code != 0) {
    device_->fill_zero(status_word_, sizeof(StatusWord), compute_stream_.handle());
    throw Error(concat("label ", found.value, " of sample ", found.index,
                       " of the batch is outside the classes of the network"));
  }
}

}  // namespace ringgrad
