// Who finds nothing to take (or no room) says so and waits for an event; the other end sends one
// only then, so that a stream that flows costs no system call. That its process has died is told by
// the store, not here.
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "comm/link.h"
#include "runtime/error.h"

namespace ringgrad::comm {
namespace {

constexpr std::size_t kCapacity = 256 * 1024;

Socket checked(int descriptor, const char* what) {
  RINGGRAD_CHECK(descriptor >= 0, "cannot make ", what, ": ", std::strerror(errno));
  return Socket(descriptor);
}

void send_event(const Socket& event) {
  const std::uint64_t one = 1;
  while (write(event.descriptor(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void take_events(const Socket& event) {
  std::uint64_t count = 0;
  while (read(event.descriptor(), &count, sizeof count) < 0 && errno == EINTR) {
  }
}

// Of the memory, zeros at first. Positions only grow; each end writes its own line of the cache.
struct Positions {
  alignas(64) std::atomic<std::uint64_t> written;
  std::atomic<bool> writer_waits;
  alignas(64) std::atomic<std::uint64_t> read;
  std::atomic<bool> reader_waits;
};

}  // namespace

struct SharedQueue::Memory {
  explicit Memory(const Socket& file) {
    void* mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor(), 0);
    RINGGRAD_CHECK(mapped != MAP_FAILED, "cannot map shared memory: ", std::strerror(errno));
    positions = static_cast<Positions*>(mapped);
    bytes = static_cast<unsigned char*>(mapped) + sizeof(Positions);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { munmap(positions, kBytes); }

  static constexpr std::size_t kBytes = sizeof(Positions) + kCapacity;
  Positions* positions;
  unsigned char* bytes;
};

SharedQueue::SharedQueue()
    : file_(checked(memfd_create("ringgrad-link", MFD_CLOEXEC), "shared memory")),
      bytes_came_(checked(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "an event")),
      room_came_(checked(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "an event")) {
  RINGGRAD_CHECK(ftruncate(file_.descriptor(), static_cast<off_t>(Memory::kBytes)) == 0,
                 "cannot size shared memory: ", std::strerror(errno));
  memory_ = std::make_shared<Memory>(file_);
}

SharedQueue::SharedQueue(Socket file, Socket bytes_came, Socket room_came)
    : file_(std::move(file)),
      memory_(std::make_shared<Memory>(file_)),
      bytes_came_(std::move(bytes_came)),
      room_came_(std::move(room_came)) {}

SharedQueue SharedQueue::received(const Socket& from, const Deadline& deadline) {
  Socket file(receive_descriptor(from, deadline));
  Socket bytes_came(receive_descriptor(from, deadline));
  return {std::move(file), std::move(bytes_came), Socket(receive_descriptor(from, deadline))};
}

void SharedQueue::hand_on(const Socket& to, const Deadline& deadline) const {
  for (const Socket* part : {&file_, &bytes_came_, &room_came_}) {
    send_descriptor(to, part->descriptor(), deadline);
  }
}

class SharedOutLink : public OutLink {
 public:
  explicit SharedOutLink(SharedQueue queue)
      : queue_(std::move(queue)), at_(*queue_.memory_->positions) {}

  std::size_t try_send(const void* data, std::size_t bytes) override {
    const std::uint64_t written = at_.written;
    const std::size_t begin = written % kCapacity;
    const std::size_t n = std::min({bytes, room(), kCapacity - begin});
    if (n > 0) {
      std::memcpy(queue_.memory_->bytes + begin, data, n);
      at_.written = written + n;
      if (at_.reader_waits.exchange(false)) {
        send_event(queue_.bytes_came_);
      }
    }
    return n;
  }
  std::optional<pollfd> waits_for() override {
    at_.writer_waits = true;
    return room() > 0 ? std::nullopt
                      : std::optional(pollfd{queue_.room_came_.descriptor(), POLLIN, 0});
  }
  void waited() override {
    at_.writer_waits = false;
    take_events(queue_.room_came_);
  }

 private:
  std::size_t room() const { return kCapacity - (at_.written - at_.read); }

  SharedQueue queue_;
  Positions& at_;
};

class SharedInLink : public InLink {
 public:
  explicit SharedInLink(SharedQueue queue)
      : queue_(std::move(queue)), at_(*queue_.memory_->positions) {}

  std::size_t try_receive(void* data, std::size_t bytes) override {
    const std::uint64_t read = at_.read;
    const std::size_t begin = read % kCapacity;
    const std::size_t n = std::min({bytes, there(), kCapacity - begin});
    if (n > 0) {
      std::memcpy(data, queue_.memory_->bytes + begin, n);
      at_.read = read + n;
      if (at_.writer_waits.exchange(false)) {
        send_event(queue_.room_came_);
      }
    }
    return n;
  }
  std::optional<pollfd> waits_for() override {
    at_.reader_waits = true;
    return there() > 0 ? std::nullopt
                       : std::optional(pollfd{queue_.bytes_came_.descriptor(), POLLIN, 0});
  }
  void waited() override {
    at_.reader_waits = false;
    take_events(queue_.bytes_came_);
  }

 private:
  std::size_t there() const { return at_.written - at_.read; }

  SharedQueue queue_;
  Positions& at_;
};

std::unique_ptr<OutLink> make_shared_out_link(SharedQueue queue) {
  return std::make_unique<SharedOutLink>(std::move(queue));
}

std::unique_ptr<InLink> make_shared_in_link(SharedQueue queue) {
  return std::make_unique<SharedInLink>(std::move(queue));
}

}  // namespace ringgrad::comm
