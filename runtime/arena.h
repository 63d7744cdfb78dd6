// The caching arena of a replica. A training step asks for the same sizes in the same order every
// time, so blocks are kept by exact size: from the second step on every request finds the block
// that the first step left, and nothing is asked of the system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "runtime/device.h"

namespace ringgrad {

struct ArenaStatistics {
  std::int64_t system_allocations = 0;  // how often the device was asked, ever
  std::size_t bytes_reserved = 0;       // held from the device now
  std::size_t bytes_in_use = 0;         // handed out now
  std::size_t peak_bytes_in_use = 0;
};

class Arena {
 public:
  explicit Arena(DeviceTable& device) : device_(device) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  // Device memory for work on `stream`; aligned to 256 bytes, not cleared. 0 bytes give a valid
  // pointer. A block returned is handed out again to the same stream at once, since work there is
  // in order; a user on another stream must make this one wait for an event before it returns the
  // block.
  void* allocate(std::size_t bytes, StreamHandle stream);
  void release(void* memory, std::size_t bytes, StreamHandle stream) noexcept;

  // Gives all cached blocks back to the device; those in use stay.
  void trim() noexcept;
  ArenaStatistics statistics() const;

 private:
  static std::size_t rounded(std::size_t bytes);

  DeviceTable& device_;
  mutable std::mutex mutex_;
  std::map<std::pair<StreamHandle, std::size_t>, std::vector<void*>> free_;
  ArenaStatistics statistics_;
};

}  // namespace ringgrad
