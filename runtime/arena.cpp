#include "runtime/arena.h"

#include <algorithm>

#include "runtime/error.h"

namespace ringgrad {

std::size_t Arena::rounded(std::size_t bytes) {
  constexpr std::size_t kStep = 256;
  return std::max(kStep, (bytes + kStep - 1) / kStep * kStep);
}

Arena::~Arena() {
  RINGGRAD_ASSERT(statistics_.bytes_in_use == 0);
  trim();
}

void* Arena::allocate(std::size_t bytes, StreamHandle stream) {
  const std::size_t size = rounded(bytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  statistics_.bytes_in_use += size;
  statistics_.peak_bytes_in_use = std::max(statistics_.peak_bytes_in_use, statistics_.bytes_in_use);
  std::vector<void*>& blocks = free_[{stream, size}];
  if (!blocks.empty()) {
    void* memory = blocks.back();
    blocks.pop_back();
    return memory;
  }
  try {
    void* memory = device_.allocate(size);
    ++statistics_.system_allocations;
    statistics_.bytes_reserved += size;
    return memory;
  } catch (...) {
    statistics_.bytes_in_use -= size;
    throw;
  }
}

void Arena::release(void* memory, std::size_t bytes, StreamHandle stream) noexcept {
  const std::size_t size = rounded(bytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  statistics_.bytes_in_use -= size;
  free_[{stream, size}].push_back(memory);
}

void Arena::trim() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [key, blocks] : free_) {
    for (void* memory : blocks) {
      device_.deallocate(memory, key.second);
      statistics_.bytes_reserved -= key.second;
    }
    blocks.clear();
  }
}

ArenaStatistics Arena::statistics() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return statistics_;
}

}  // namespace ringgrad
