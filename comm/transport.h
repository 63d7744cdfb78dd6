// How bytes get from a rank to its right neighbour in the ring, and from its left one. The ring
// (ring.cpp) knows nothing else of it.
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
  int right() const { return (rank() + 1) % size(); }
  int left() const { return (rank() + size() - 1) % size(); }

  // As many bytes of a stream as go now, without waiting. Error when the neighbour is gone.
  virtual std::size_t try_send(const void* data, std::size_t bytes) = 0;  // to the right
  virtual std::size_t try_receive(void* data, std::size_t bytes) = 0;     // from the left
  // Waits until try_receive, or if `sending` try_send, has something to do; at most so long.
  virtual void wait(bool sending, bool receiving, std::chrono::milliseconds at_most) = 0;
};

// Transports for `size` ranks that are threads of this process.
std::vector<std::unique_ptr<Transport>> make_memory_transports(int size);

}  // namespace ringgrad::comm
