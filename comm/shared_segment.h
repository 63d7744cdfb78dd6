// Memory that all ranks of a group read and write: of threads of one process, or of processes of
// one host. It holds a control area, a staging area for each rank, and a heap for each rank, from
// which gradient buckets come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace ringgrad::comm {

class SharedSegment {
 public:
  static constexpr std::size_t kControlBytes = 64 * 1024;
  static constexpr std::size_t kStagingBytes = std::size_t{4} << 20;  // of each rank
  // Address space, not memory: pages are taken when they are allocated.
  static constexpr std::size_t kHeapBytes = std::size_t{16} << 30;  // of each rank

  // For ranks that are threads of this process: all memory is shared anyway.
  static std::vector<SharedSegment> for_threads(int size);
  // For processes: a memory file, which the creator hands on. -1 is never returned; Error instead.
  static int create_file(int size);
  // Maps it. The descriptor stays the caller's.
  static SharedSegment map_file(int file, int rank, int size);

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Whether ranks reach each other's own memory, which its owner may free.
  bool one_process() const { return one_process_; }
  unsigned char* control() const { return base(); }  // zeros at first
  unsigned char* staging(int rank) const;

  // How other ranks name this memory; 0 if they cannot reach it.
  std::uint64_t token(const void* data, std::size_t bytes) const;
  // Where the memory of a token lies for this rank.
  unsigned char* address(std::uint64_t token) const;
  // From this rank's heap, zeros, aligned to pages; null where that is used up. Freed with the last
  // owner.
  std::shared_ptr<void> allocate(std::size_t bytes);

 private:
  struct Mapping;
  SharedSegment(std::shared_ptr<Mapping> mapping, int rank, int size, bool one_process)
      : mapping_(std::move(mapping)), rank_(rank), size_(size), one_process_(one_process) {}
  unsigned char* base() const;
  std::size_t heap_offset(int rank) const;

  std::shared_ptr<Mapping> mapping_;
  int rank_;
  int size_;
  bool one_process_;
  std::size_t heap_used_ = 0;
};

}  // namespace ringgrad::comm
