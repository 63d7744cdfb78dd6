// How bytes get from one rank to another. The collective algorithms (ring.h) know nothing else of
// it.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

namespace ringgrad::comm {

class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Blocks until the bytes may be overwritten. Messages between two ranks arrive in the order sent,
  // with the length they were sent with; Error when the peer is gone, or nothing moved before the
  // timeout.
  virtual void send(int to, const void* data, std::size_t bytes) = 0;
  virtual void receive(int from, void* data, std::size_t bytes) = 0;
  // Wakes everybody who waits, here and at the peers, with an Error of this text.
  virtual void abort(const char* reason) = 0;
};

// Transports for `size` ranks that are threads of this process, connected through memory.
std::vector<std::unique_ptr<Transport>> make_memory_transports(int size,
                                                               std::chrono::milliseconds timeout);

}  // namespace ringgrad::comm
