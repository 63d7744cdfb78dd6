#include "scheduler.h"

#include <sys/mman.h>

#include <atomic>
#include <boost/context/fiber.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cores.h"
#include "order.h"
#include "sanitizer_fiber.h"

namespace emulator {
namespace {

constexpr std::size_t kStackBytes = 64 * 1024;
constexpr unsigned kWarp = 32;
constexpr unsigned char kPoison = 0xff;  // bytes of a NaN

// Stacks come from mmap, so that a sanitizer's heap does not know them, and are kept for the next
// block.
class StackPool {
 public:
  StackPool() = default;
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;
  ~StackPool() {
    for (void* stack : stacks_) {
      munmap(stack, kStackBytes);
    }
  }
  void* stack(std::size_t index) {
    while (stacks_.size() <= index) {
      void* memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
      if (memory == MAP_FAILED) {
        std::fprintf(stderr, "emulator: no memory for the stacks of a block\n");
        std::abort();
      }
      stacks_.push_back(memory);
    }
    return stacks_[index];
  }

 private:
  std::vector<void*> stacks_;
};

struct NothingToFree {
  void deallocate(boost::context::stack_context&) noexcept {}
};

struct Thread {
  enum class State { ready, waiting, finished };
  dim3 index;
  unsigned flat = 0;
  boost::context::fiber fiber;
  SanitizerFiber sanitizer;
  State state = State::ready;
  Arrival arrival;                           // where it waits
  std::uint64_t heard[kWarp] = {};           // the lanes' values at the last operation of its warp
  unsigned barriers = 0, warp_barriers = 0;  // passed so far

  bool waits_at(Arrival::Kind kind) const {
    return state == State::waiting && arrival.kind == kind;
  }
};

// The block that this core is running.
struct Block {
  const Grid* grid = nullptr;
  dim3 index;
  std::vector<Thread> threads;
  Thread* running = nullptr;
  boost::context::fiber scheduler;
  SanitizerFiber scheduler_sanitizer;
  std::map<const void*, std::unique_ptr<unsigned char[]>> shared;
  // What ThreadSanitizer orders the barriers by, two in turn: with one alone, who passes late would
  // be ordered behind what others did after the barrier.
  char barrier[2] = {};
  RetiredThreads retired;
  char warp_barrier[2][1024 / kWarp] = {};
  bool last_done = false;  // no block of the grid is left
};

thread_local Block* current = nullptr;

std::string text_of(const dim3& index) {
  return "(" + std::to_string(index.x) + "," + std::to_string(index.y) + "," +
         std::to_string(index.z) + ")";
}

std::string text_of(const Site& site) {
  const char* slash = std::strrchr(site.file, '/');
  return std::string(slash != nullptr ? slash + 1 : site.file) + ":" + std::to_string(site.line);
}

std::string text_of(const Arrival& arrival) {
  char mask[32];
  std::snprintf(mask, sizeof mask, " with mask 0x%08x", arrival.mask);
  switch (arrival.kind) {
    case Arrival::Kind::barrier:
      return "__syncthreads() at " + text_of(arrival.site);
    case Arrival::Kind::warp_barrier:
      return "__syncwarp() at " + text_of(arrival.site) + mask;
    case Arrival::Kind::shuffle:
      return "a shuffle at " + text_of(arrival.site) + mask;
    case Arrival::Kind::vote:
      return "a vote at " + text_of(arrival.site) + mask;
  }
  return "";
}

std::string state_of(const Thread& thread) {
  return "thread " + text_of(thread.index) +
         (thread.state == Thread::State::finished ? " returned"
                                                  : " waits at " + text_of(thread.arrival));
}

std::string text_of(const Block& block) {
  return "block " + text_of(block.index) + " of the kernel launched at " +
         text_of(block.grid->site);
}

// Gives control back to the scheduler until it resumes this thread.
void yield() {
  Block& block = *current;
  Thread& thread = *block.running;
  thread.sanitizer.leave_for(block.scheduler_sanitizer, false);
  block.scheduler = std::move(block.scheduler).resume();
  thread.sanitizer.arrived();
}

// A fiber runs the thread of its index in one block of the grid after the other: making fibers
// costs more than most kernels do.
void start(Thread& thread, void* stack) {
  boost::context::stack_context context;
  context.size = kStackBytes;
  context.sp = static_cast<char*>(stack) + kStackBytes;
  thread.sanitizer.create(stack, kStackBytes);
  const auto body = [&thread](boost::context::fiber&& scheduler) {
    Block& block = *current;
    block.scheduler = std::move(scheduler);
    thread.sanitizer.arrived();
    while (!block.last_done) {
      thread.sanitizer.acquire(&block.grid->site);
      block.grid->kernel();
      thread.sanitizer.release(&block.grid->blocks);
      thread.state = Thread::State::finished;
      yield();
    }
    thread.sanitizer.leave_for(block.scheduler_sanitizer, true);
    return std::move(block.scheduler);
  };
  thread.fiber = boost::context::fiber(
      std::allocator_arg, boost::context::preallocated(context.sp, context.size, context),
      NothingToFree{}, body);
}

void resume(Block& block, Thread& thread) {
  block.running = &thread;
  block.scheduler_sanitizer.leave_for(thread.sanitizer, false);
  thread.fiber = std::move(thread.fiber).resume();
  block.scheduler_sanitizer.arrived();
  block.running = nullptr;
}

unsigned lanes_of(const Block& block, unsigned warp) {
  const auto count = static_cast<unsigned>(block.threads.size());
  return std::min(kWarp, count - warp * kWarp);
}

// The thread of the block that keeps `waiting` from going on, if there is one.
const Thread* missing_for(const Block& block, const Thread& waiting) {
  const Arrival& at = waiting.arrival;
  const unsigned first = at.kind == Arrival::Kind::barrier ? 0 : waiting.flat / kWarp * kWarp;
  for (unsigned i = first; i < block.threads.size(); ++i) {
    const Thread& other = block.threads[i];
    const bool named = at.kind == Arrival::Kind::barrier ||
                       (i - first < kWarp && (at.mask >> (i - first) & 1U) != 0);
    const bool there = other.state == Thread::State::waiting && other.arrival.kind == at.kind &&
                       other.arrival.site == at.site && other.arrival.mask == at.mask;
    if (named && !there) {
      return &other;
    }
  }
  return nullptr;
}

[[noreturn]] void report_stuck(const Block& block) {
  for (const Thread& thread : block.threads) {
    if (thread.state == Thread::State::waiting) {
      const Thread* missing = missing_for(block, thread);
      report(text_of(block) + " cannot go on: " + state_of(thread) +
             (missing != nullptr ? ", but " + state_of(*missing) : ""));
    }
  }
  report("nothing waits and nothing runs");  // not reached
}

// Opens the barrier if everybody is there, at the same place.
bool open_barrier(Block& block) {
  const Thread& first = block.threads.front();
  if (!first.waits_at(Arrival::Kind::barrier) || missing_for(block, first) != nullptr) {
    return false;
  }
  for (Thread& thread : block.threads) {
    thread.state = Thread::State::ready;
  }
  return true;
}

void run_block(Block& block, Shuffler& shuffler, std::vector<std::uint32_t>& places) {
  block.shared.clear();
  for (Thread& thread : block.threads) {
    thread.state = Thread::State::ready;
    thread.barriers = thread.warp_barriers = 0;
    thread.sanitizer.begin_block(
        [&] { return text_of(thread.index) + " of block " + text_of(block.index); });
  }
  const auto count = static_cast<std::uint32_t>(block.threads.size());
  for (;;) {
    bool moved = false;
    std::uint32_t finished = 0;
    arrange(places, count, shuffler);
    for (const std::uint32_t place : places) {
      Thread& thread = block.threads[place];
      if (thread.state == Thread::State::ready) {
        resume(block, thread);
        moved = true;
      }
      finished += thread.state == Thread::State::finished ? 1U : 0U;
    }
    if (finished == count) {
      break;
    }
    if (!moved && !open_barrier(block)) {
      report_stuck(block);
    }
  }
  for (Thread& thread : block.threads) {
    thread.sanitizer.end_block(block.retired);
  }
}

// Runs blocks of the grid, which `next` counts, until none is left.
void run_blocks(const Grid& grid, const std::vector<std::uint32_t>& order_of_blocks,
                std::atomic<std::uint64_t>& next) {
  static thread_local StackPool stacks;
  const std::uint64_t count = std::uint64_t{grid.blocks.x} * grid.blocks.y * grid.blocks.z;
  Block block;
  block.grid = &grid;
  block.threads =
      std::vector<Thread>(std::size_t{grid.threads.x} * grid.threads.y * grid.threads.z);
  block.scheduler_sanitizer.adopt_running();
  Block* outer = current;
  current = &block;
  for (std::size_t i = 0; i < block.threads.size(); ++i) {
    Thread& thread = block.threads[i];
    thread.flat = static_cast<unsigned>(i);
    thread.index = dim3(thread.flat % grid.threads.x, thread.flat / grid.threads.x % grid.threads.y,
                        thread.flat / (grid.threads.x * grid.threads.y));
    start(thread, stacks.stack(i));
  }
  std::vector<std::uint32_t> places;
  for (std::uint64_t taken = next++; taken < count; taken = next++) {
    const auto flat =
        order_of_blocks.empty() ? static_cast<std::uint32_t>(taken) : order_of_blocks[taken];
    block.index = dim3(flat % grid.blocks.x, flat / grid.blocks.x % grid.blocks.y,
                       flat / (grid.blocks.x * grid.blocks.y));
    Shuffler shuffler(order_seed() + flat);
    const BlockWatch watch(
        [](const void* what) { return text_of(*static_cast<const Block*>(what)); }, &block);
    run_block(block, shuffler, places);
  }
  block.last_done = true;
  for (Thread& thread : block.threads) {
    thread.sanitizer.begin_block([] { return std::string("none"); });
    resume(block, thread);
    thread.sanitizer.end_block(block.retired);
  }
  current = outer;
}

// A lane's arrival at an operation of its warp. Returns when all that the mask names have come.
void meet_warp(const Arrival& arrival) {
  Block& block = *current;
  Thread& self = *block.running;
  const unsigned first = self.flat / kWarp * kWarp;
  const unsigned lane = self.flat - first;
  const unsigned lanes = lanes_of(block, self.flat / kWarp);
  self.arrival = arrival;
  self.state = Thread::State::waiting;
  if ((arrival.mask >> lane & 1U) == 0) {
    report(state_of(self) + ", which does not name its own lane " + std::to_string(lane));
  }
  if (lanes < kWarp && arrival.mask >> lanes != 0) {
    report(state_of(self) + ", but the warp has " + std::to_string(lanes) + " lanes");
  }
  if (missing_for(block, self) == nullptr) {
    for (unsigned to = 0; to < lanes; ++to) {
      Thread& thread = block.threads[first + to];
      for (unsigned from = 0; from < kWarp && (arrival.mask >> to & 1U) != 0; ++from) {
        std::memset(&thread.heard[from], kPoison, sizeof thread.heard[from]);
        if ((arrival.mask >> from & 1U) != 0) {
          thread.heard[from] = block.threads[first + from].arrival.value;
        }
      }
    }
    for (unsigned to = 0; to < lanes; ++to) {
      if ((arrival.mask >> to & 1U) != 0) {
        block.threads[first + to].state = Thread::State::ready;
      }
    }
  }
  yield();
}

}  // namespace

void report(const std::string& text) {
  std::fprintf(stderr, "emulator: %s\n", text.c_str());
  if (current != nullptr && current->running != nullptr) {
    std::fprintf(stderr, "emulator: in thread %s of %s\n", text_of(current->running->index).c_str(),
                 text_of(*current).c_str());
  }
  std::abort();
}

void run_grid(const Grid& grid) {
  std::vector<std::uint32_t> order_of_blocks;
  const std::uint64_t count = std::uint64_t{grid.blocks.x} * grid.blocks.y * grid.blocks.z;
  if (order() != Order::forward) {
    Shuffler shuffler(order_seed());
    arrange(order_of_blocks, static_cast<std::uint32_t>(count), shuffler);
  }
  std::atomic<std::uint64_t> next{0};
  SanitizerFiber::release(&grid.site);  // what the host wrote before
  on_cores(count, [&] { run_blocks(grid, order_of_blocks, next); });
  SanitizerFiber::acquire(&grid.blocks);  // what the threads wrote
}

const dim3& current_thread() {
  return current->running->index;
}
const dim3& current_block() {
  return current->index;
}
const dim3& current_block_dim() {
  return current->grid->threads;
}
const dim3& current_grid_dim() {
  return current->grid->blocks;
}

void* shared_array(const void* site, std::size_t bytes) {
  std::unique_ptr<unsigned char[]>& array = current->shared[site];
  if (!array) {
    array = std::make_unique<unsigned char[]>(bytes);
    std::memset(array.get(), kPoison, bytes);
  }
  return array.get();
}

void __syncthreads(Site site) {
  Block& block = *current;
  Thread& thread = *block.running;
  char* const ordered = &block.barrier[thread.barriers++ % 2];
  thread.arrival = {Arrival::Kind::barrier, site, 0, 0};
  thread.state = Thread::State::waiting;
  thread.sanitizer.release(ordered);
  yield();
  thread.sanitizer.acquire(ordered);
}

void __syncwarp(unsigned mask, Site site) {
  Block& block = *current;
  Thread& thread = *block.running;
  char* const ordered = &block.warp_barrier[thread.warp_barriers++ % 2][thread.flat / kWarp];
  thread.sanitizer.release(ordered);
  meet_warp({Arrival::Kind::warp_barrier, site, mask, 0});
  thread.sanitizer.acquire(ordered);
}

std::uint64_t warp_shuffle(unsigned mask, std::uint64_t value, unsigned from_lane, Site site) {
  meet_warp({Arrival::Kind::shuffle, site, mask, value});
  return current->running->heard[from_lane % kWarp];
}

unsigned warp_vote(unsigned mask, bool predicate, Site site) {
  meet_warp({Arrival::Kind::vote, site, mask, predicate ? 1U : 0U});
  unsigned votes = 0;
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    const bool counts = (mask >> lane & 1U) != 0 && current->running->heard[lane] != 0;
    votes |= counts ? 1U << lane : 0U;
  }
  return votes;
}

unsigned current_lane() {
  return current->running->flat % kWarp;
}

void __threadfence() {
  current->running->sanitizer.fence();
}
void before_atomic(const void* place) {
  current->running->sanitizer.before_atomic(place);
}
void after_atomic(const void* place) {
  current->running->sanitizer.after_atomic(place);
}

}  // namespace emulator
