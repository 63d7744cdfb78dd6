#include "memory.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMULATOR_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define EMULATOR_ASAN 1
#endif
#ifdef EMULATOR_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

namespace emulator {
namespace {

constexpr int kFreed = -1;
constexpr std::uintptr_t kLowestAddress = std::uintptr_t{1} << 40;  // below, a word is a number

using Place = const char*;

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

struct Allocation {
  std::size_t bytes;
  std::size_t pages_bytes;
  int device;  // kFreed: its addresses are not given out again
};

struct Memory {
  std::mutex mutex;  // of what follows
  std::map<char*, Allocation> on_device;
  std::map<Place, std::size_t> pinned;
  std::map<int, std::size_t> used;
  int open = 0;
};

Memory& memory() {
  static Memory& the_memory = *new Memory;  // outlives every static that still frees
  return the_memory;
}

// The entry that holds `place`, if there is one. Under the mutex.
template <class Entries, class Bytes>
auto entry_at(Entries& entries, Place place, Bytes&& bytes_of) {
  auto found = entries.upper_bound(const_cast<typename Entries::key_type>(place));
  if (found == entries.begin()) {
    return entries.end();
  }
  --found;
  return place < found->first + bytes_of(found->second) ? found : entries.end();
}
auto device_entry_at(const void* place) {
  return entry_at(memory().on_device, static_cast<Place>(place),
                  [](const Allocation& a) { return a.bytes; });
}
auto pinned_entry_at(const void* place) {
  return entry_at(memory().pinned, static_cast<Place>(place),
                  [](std::size_t bytes) { return bytes; });
}

void protect_all(int protection) {
  for (const auto& [place, allocation] : memory().on_device) {
    if (allocation.device != kFreed) {
      mprotect(place, allocation.pages_bytes, protection);
    }
  }
}

struct sigaction previous_handler;

// Says what a fault was before it takes its usual course.
void on_fault(int signal, siginfo_t* info, void* context) {
  if (memory().mutex.try_lock()) {
    const auto found = device_entry_at(info->si_addr);
    if (found != memory().on_device.end()) {
      char text[200];
      const int length = std::snprintf(
          text, sizeof text,
          found->second.device == kFreed
              ? "emulator: device memory at %p was freed before\n"
              : "emulator: the host touched device memory at %p; copy it to the host first\n",
          info->si_addr);
      (void)!write(STDERR_FILENO, text, static_cast<std::size_t>(length));
    }
    memory().mutex.unlock();
  }
  if ((previous_handler.sa_flags & SA_SIGINFO) != 0 && previous_handler.sa_sigaction != nullptr) {
    previous_handler.sa_sigaction(signal, info, context);
    return;
  }
  sigaction(SIGSEGV, &previous_handler, nullptr);
}

void explain_faults() {
  static const bool installed = [] {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, &previous_handler);
    return true;
  }();
  (void)installed;
}

bool is_mapped(Place place) {
  unsigned char resident = 0;
  const std::uintptr_t within = reinterpret_cast<std::uintptr_t>(place) % page_bytes();
  return mincore(const_cast<char*>(place - within), 1, &resident) == 0;
}

}  // namespace

void* allocate_on_device(int device, std::size_t bytes, std::size_t device_bytes) {
  explain_faults();
  const std::size_t page = page_bytes();
  const std::size_t whole = (bytes + page - 1) / page * page;
  const std::lock_guard<std::mutex> lock(memory().mutex);
  std::size_t& used = memory().used[device];
  if (whole > device_bytes || used > device_bytes - whole) {
    return nullptr;
  }
  void* place =
      mmap(nullptr, whole + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) {
    return nullptr;
  }
  mprotect(place, whole, PROT_READ | PROT_WRITE);
  std::memset(place, 0xff, bytes);
  ASAN_POISON_MEMORY_REGION(static_cast<char*>(place) + bytes, whole - bytes);
  if (memory().open == 0) {
    mprotect(place, whole, PROT_NONE);
  }
  // What lay there before is forgotten.
  memory().on_device[static_cast<char*>(place)] = {bytes, whole, device};
  used += whole;
  return place;
}

bool free_on_device(void* place) {
  const std::lock_guard<std::mutex> lock(memory().mutex);
  const auto found = memory().on_device.find(static_cast<char*>(place));
  if (found == memory().on_device.end() || found->second.device == kFreed) {
    return false;
  }
  Allocation& allocation = found->second;
  memory().used[allocation.device] -= allocation.pages_bytes;
  allocation.device = kFreed;
  // The pages go back, their addresses stay taken, so that who still uses them faults.
  return mmap(place, allocation.pages_bytes, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

void* allocate_pinned(std::size_t bytes) {
  constexpr std::size_t kAlignment = 256;
  const std::size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* place = std::aligned_alloc(kAlignment, whole > 0 ? whole : kAlignment);
  if (place != nullptr) {
    std::memset(place, 0xff, bytes);
    const std::lock_guard<std::mutex> lock(memory().mutex);
    memory().pinned[static_cast<Place>(place)] = bytes;
  }
  return place;
}

bool free_pinned(void* place) {
  {
    const std::lock_guard<std::mutex> lock(memory().mutex);
    if (memory().pinned.erase(static_cast<Place>(place)) == 0) {
      return false;
    }
  }
  std::free(place);
  return true;
}

bool is_on_device(const void* place, std::size_t bytes, int device) {
  const std::lock_guard<std::mutex> lock(memory().mutex);
  const auto found = device_entry_at(place);
  return found != memory().on_device.end() && found->second.device != kFreed &&
         (device < 0 || found->second.device == device) &&
         bytes <= found->second.bytes -
                      static_cast<std::size_t>(static_cast<Place>(place) - found->first);
}

bool is_pinned(const void* place, std::size_t bytes) {
  const std::lock_guard<std::mutex> lock(memory().mutex);
  const auto found = pinned_entry_at(place);
  return found != memory().pinned.end() &&
         bytes <=
             found->second - static_cast<std::size_t>(static_cast<Place>(place) - found->first);
}

DeviceMemoryOpen::DeviceMemoryOpen() {
  const std::lock_guard<std::mutex> lock(memory().mutex);
  if (memory().open++ == 0) {
    protect_all(PROT_READ | PROT_WRITE);
  }
}
DeviceMemoryOpen::~DeviceMemoryOpen() {
  const std::lock_guard<std::mutex> lock(memory().mutex);
  if (--memory().open == 0) {
    protect_all(PROT_NONE);
  }
}

std::string unusable_argument(const void* arguments, std::size_t bytes, int device) {
  const std::lock_guard<std::mutex> lock(memory().mutex);
  for (std::size_t at = 0; at + sizeof(Place) <= bytes; at += sizeof(Place)) {
    Place word = nullptr;
    std::memcpy(&word, static_cast<Place>(arguments) + at, sizeof word);
    if (reinterpret_cast<std::uintptr_t>(word) < kLowestAddress) {
      continue;
    }
    const auto found = device_entry_at(word);
    if (found != memory().on_device.end()) {
      const int owner = found->second.device;
      if (owner == kFreed) {
        return "device memory that was freed";
      }
      if (owner != device) {
        return "memory of device " + std::to_string(owner);
      }
    } else if (pinned_entry_at(word) == memory().pinned.end() && is_mapped(word)) {
      return "pageable memory of the host";
    }
  }
  return "";
}

}  // namespace emulator
