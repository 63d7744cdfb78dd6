// Ranks as threads of one process: a message is a copy through a mailbox per pair of ranks.
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>

#include "comm/transport.h"
#include "runtime/deadline.h"
#include "runtime/error.h"

namespace ringgrad::comm {
namespace {

struct Shared {
  explicit Shared(int ranks, std::chrono::milliseconds wait) : size(ranks), timeout(wait) {
    mailboxes.resize(static_cast<std::size_t>(ranks * ranks));
  }
  std::deque<std::string>& mailbox(int from, int to) {
    return mailboxes[static_cast<std::size_t>(from * size + to)];
  }

  const int size;
  const std::chrono::milliseconds timeout;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::deque<std::string>> mailboxes;
  std::string aborted;
};

class MemoryTransport : public Transport {
 public:
  MemoryTransport(std::shared_ptr<Shared> shared, int rank)
      : shared_(std::move(shared)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return shared_->size; }

  void send(int to, const void* data, std::size_t bytes) override {
    const std::lock_guard<std::mutex> lock(shared_->mutex);
    RINGGRAD_CHECK(shared_->aborted.empty(), shared_->aborted);
    shared_->mailbox(rank_, to).emplace_back(static_cast<const char*>(data), bytes);
    shared_->changed.notify_all();
  }

  void receive(int from, void* data, std::size_t bytes) override {
    std::unique_lock<std::mutex> lock(shared_->mutex);
    std::deque<std::string>& mailbox = shared_->mailbox(from, rank_);
    const bool arrived = Deadline(shared_->timeout).wait(shared_->changed, lock, [&] {
      return !mailbox.empty() || !shared_->aborted.empty();
    });
    RINGGRAD_CHECK(shared_->aborted.empty(), shared_->aborted);
    RINGGRAD_CHECK(arrived, "rank ", rank_, " waited ", shared_->timeout.count(), " ms for rank ",
                   from, ", which sent nothing");
    RINGGRAD_CHECK(mailbox.front().size() == bytes, "rank ", rank_, " expected ", bytes,
                   " bytes from rank ", from, " and got ", mailbox.front().size(),
                   ": the ranks disagree on what they do");
    if (bytes > 0) {
      std::memcpy(data, mailbox.front().data(), bytes);
    }
    mailbox.pop_front();
  }

  void abort(const char* reason) override {
    const std::lock_guard<std::mutex> lock(shared_->mutex);
    if (shared_->aborted.empty()) {
      shared_->aborted = reason;
    }
    shared_->changed.notify_all();
  }

 private:
  std::shared_ptr<Shared> shared_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_memory_transports(int size,
                                                               std::chrono::milliseconds timeout) {
  const auto shared = std::make_shared<Shared>(size, timeout);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < size; ++rank) {
    transports.push_back(std::make_unique<MemoryTransport>(shared, rank));
  }
  return transports;
}

}  // namespace ringgrad::comm
