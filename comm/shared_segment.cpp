#include "comm/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "runtime/error.h"

namespace ringgrad::comm {
namespace {

constexpr std::size_t kPage = 4096;

std::size_t bytes_without_heaps(int size) {
  return SharedSegment::kControlBytes +
         static_cast<std::size_t>(size) * SharedSegment::kStagingBytes;
}

std::size_t bytes_with_heaps(int size) {
  return bytes_without_heaps(size) + static_cast<std::size_t>(size) * SharedSegment::kHeapBytes;
}

}  // namespace

struct SharedSegment::Mapping {
  Mapping(std::size_t size, int flags, int file) : bytes(size) {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, file, 0);
    RINGGRAD_CHECK(memory != MAP_FAILED, "cannot map ", bytes >> 20,
                   " MiB of shared address space: ", std::strerror(errno));
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { munmap(memory, bytes); }

  void* memory;
  std::size_t bytes;
};

std::vector<SharedSegment> SharedSegment::for_threads(int size) {
  const auto mapping =
      std::make_shared<Mapping>(bytes_without_heaps(size), MAP_PRIVATE | MAP_ANONYMOUS, -1);
  std::vector<SharedSegment> segments;
  for (int rank = 0; rank < size; ++rank) {
    segments.push_back(SharedSegment(mapping, rank, size, true));
  }
  return segments;
}

int SharedSegment::create_file(int size) {
  const int file = memfd_create("ringgrad", MFD_CLOEXEC);
  RINGGRAD_CHECK(file >= 0, "cannot make shared memory: ", std::strerror(errno));
  if (ftruncate(file, static_cast<off_t>(bytes_with_heaps(size))) != 0) {
    const std::string reason = std::strerror(errno);
    close(file);
    throw Error(concat("cannot size shared memory: ", reason));
  }
  return file;
}

SharedSegment SharedSegment::map_file(int file, int rank, int size) {
  auto mapping = std::make_shared<Mapping>(bytes_with_heaps(size), MAP_SHARED, file);
  return SharedSegment(std::move(mapping), rank, size, false);
}

unsigned char* SharedSegment::base() const {
  return static_cast<unsigned char*>(mapping_->memory);
}

unsigned char* SharedSegment::staging(int rank) const {
  return base() + kControlBytes + static_cast<std::size_t>(rank) * kStagingBytes;
}

std::size_t SharedSegment::heap_offset(int rank) const {
  return bytes_without_heaps(size_) + static_cast<std::size_t>(rank) * kHeapBytes;
}

std::uint64_t SharedSegment::token(const void* data, std::size_t bytes) const {
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  if (one_process_) {
    return at;
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(base()) + heap_offset(0);
  const std::size_t heaps = static_cast<std::size_t>(size_) * kHeapBytes;
  const bool inside = at >= begin && at - begin <= heaps && bytes <= heaps - (at - begin);
  return inside ? heap_offset(0) + (at - begin) : 0;
}

unsigned char* SharedSegment::address(std::uint64_t token) const {
  if (one_process_) {
    unsigned char* memory = nullptr;
    std::memcpy(&memory, &token, sizeof memory);
    return memory;
  }
  return base() + token;
}

std::shared_ptr<void> SharedSegment::allocate(std::size_t bytes) {
  const std::size_t rounded = (bytes + kPage - 1) / kPage * kPage;
  if (one_process_) {
    const auto mapping = std::make_shared<Mapping>(rounded, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    return {mapping, mapping->memory};
  }
  if (rounded > kHeapBytes - heap_used_) {
    return nullptr;
  }
  unsigned char* memory = base() + heap_offset(rank_) + heap_used_;
  // Pages are taken now: later, a lack of memory would end the process without a word.
  if (madvise(memory, rounded, MADV_POPULATE_WRITE) != 0 && errno != EINVAL) {
    return nullptr;
  }
  heap_used_ += rounded;
  // Address space is not used twice: a model's gradients are one allocation for the whole run.
  const auto mapping = mapping_;
  return {memory, [mapping, rounded](void* freed) { madvise(freed, rounded, MADV_REMOVE); }};
}

}  // namespace ringgrad::comm
