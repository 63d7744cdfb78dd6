#include "comm/waiting.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace ringgrad::comm {
namespace {

// Not the private kind: the word lies in memory of several processes.
long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, timeout,
                 nullptr, 0);
}

}  // namespace

void Doorbell::ring() {
  rings.fetch_add(1);
  if (sleepers.load() > 0) {
    futex(rings, FUTEX_WAKE, INT_MAX, nullptr);
  }
}

void Doorbell::sleep(std::uint32_t seen) {
  const timespec at_most{0, 20'000'000};
  sleepers.fetch_add(1);
  futex(rings, FUTEX_WAIT, seen, &at_most);
  sleepers.fetch_sub(1);
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace ringgrad::comm
