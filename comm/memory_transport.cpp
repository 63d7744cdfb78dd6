// Ranks as threads of one process: a bounded queue of bytes from each rank to its right neighbour.
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>

#include "comm/transport.h"

namespace ringgrad::comm {
namespace {

constexpr std::size_t kCapacity = 256 * 1024;

// What all queues of the ring share; ranks are few, so one lock does.
struct Shared {
  struct Queue {
    std::vector<char> bytes = std::vector<char>(kCapacity);
    std::size_t begin = 0, count = 0;
  };
  explicit Shared(int ranks) : queues(static_cast<std::size_t>(ranks)) {}
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Queue> queues;  // by sender
};

class MemoryTransport : public Transport {
 public:
  MemoryTransport(std::shared_ptr<Shared> shared, int rank)
      : shared_(std::move(shared)),
        rank_(rank),
        out_(shared_->queues[static_cast<std::size_t>(rank)]),
        in_(shared_->queues[static_cast<std::size_t>(left())]) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(shared_->queues.size()); }

  std::size_t try_send(const void* data, std::size_t bytes) override {
    const std::lock_guard<std::mutex> lock(shared_->mutex);
    const std::size_t at = (out_.begin + out_.count) % kCapacity;
    const std::size_t n = std::min({bytes, kCapacity - out_.count, kCapacity - at});
    std::memcpy(out_.bytes.data() + at, data, n);
    out_.count += n;
    shared_->changed.notify_all();
    return n;
  }

  std::size_t try_receive(void* data, std::size_t bytes) override {
    const std::lock_guard<std::mutex> lock(shared_->mutex);
    const std::size_t n = std::min({bytes, in_.count, kCapacity - in_.begin});
    std::memcpy(data, in_.bytes.data() + in_.begin, n);
    in_.begin = (in_.begin + n) % kCapacity;
    in_.count -= n;
    shared_->changed.notify_all();
    return n;
  }

  void wait(bool sending, bool receiving, std::chrono::milliseconds at_most) override {
    std::unique_lock<std::mutex> lock(shared_->mutex);
    shared_->changed.wait_for(lock, at_most, [&] {
      return (receiving && in_.count > 0) || (sending && out_.count < kCapacity);
    });
  }

 private:
  std::shared_ptr<Shared> shared_;
  int rank_;
  Shared::Queue& out_;
  Shared::Queue& in_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_memory_transports(int size) {
  const auto shared = std::make_shared<Shared>(size);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < size; ++rank) {
    transports.push_back(std::make_unique<MemoryTransport>(shared, rank));
  }
  return transports;
}

}  // namespace ringgrad::comm
