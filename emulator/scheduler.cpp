#include "scheduler.h"

#include <sys/mman.h>

#include <boost/context/fiber.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "sanitizer_fiber.h"

namespace emulator {
namespace {

constexpr std::size_t kStackBytes = 64 * 1024;

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
  dim3 index;
  boost::context::fiber fiber;
  SanitizerFiber sanitizer;
  bool finished = false;
};

// The block that this host thread is running.
struct Block {
  dim3 index, dim, grid;
  std::vector<Thread> threads;
  Thread* running = nullptr;
  boost::context::fiber scheduler;
  SanitizerFiber scheduler_sanitizer;
  std::map<const void*, std::unique_ptr<unsigned char[]>> shared;
  bool last_done = false;  // no block of the grid is left
};

thread_local Block* current = nullptr;

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
void start(Thread& thread, void* stack, const std::function<void()>& kernel) {
  boost::context::stack_context context;
  context.size = kStackBytes;
  context.sp = static_cast<char*>(stack) + kStackBytes;
  thread.sanitizer.create(stack, kStackBytes);
  const auto body = [&thread, &kernel](boost::context::fiber&& scheduler) {
    Block& block = *current;
    block.scheduler = std::move(scheduler);
    thread.sanitizer.arrived();
    while (!block.last_done) {
      kernel();
      thread.finished = true;
      yield();
    }
    thread.sanitizer.leave_for(block.scheduler_sanitizer, true);
    return std::move(block.scheduler);
  };
  thread.sanitizer.while_constructing([&] {
    thread.fiber = boost::context::fiber(
        std::allocator_arg, boost::context::preallocated(context.sp, context.size, context),
        NothingToFree{}, body);
  });
}

void resume(Block& block, Thread& thread) {
  block.running = &thread;
  block.scheduler_sanitizer.leave_for(thread.sanitizer, false);
  thread.fiber = std::move(thread.fiber).resume();
  block.scheduler_sanitizer.arrived();
}

[[noreturn]] void report_divergence(const Block& block, const Thread& returned) {
  std::fprintf(
      stderr,
      "emulator: thread (%u,%u,%u) of block (%u,%u,%u) returned while others of the block wait "
      "at __syncthreads()\n",
      returned.index.x, returned.index.y, returned.index.z, block.index.x, block.index.y,
      block.index.z);
  std::abort();
}

void run_block(Block& block) {
  block.shared.clear();
  for (Thread& thread : block.threads) {
    thread.finished = false;
  }
  std::size_t finished = 0;
  while (finished < block.threads.size()) {
    finished = 0;
    const Thread* returned = nullptr;
    for (Thread& thread : block.threads) {
      resume(block, thread);
      if (thread.finished) {
        ++finished;
        returned = &thread;
      }
    }
    if (finished > 0 && finished < block.threads.size()) {
      report_divergence(block, *returned);
    }
  }
}

}  // namespace

void run_grid(dim3 grid, dim3 dim, const std::function<void()>& kernel) {
  static thread_local StackPool stacks;
  Block block;
  block.dim = dim;
  block.grid = grid;
  block.threads = std::vector<Thread>(std::size_t{dim.x} * dim.y * dim.z);
  block.scheduler_sanitizer.adopt_running();
  Block* outer = current;
  current = &block;
  for (std::size_t i = 0; i < block.threads.size(); ++i) {
    const auto flat = static_cast<unsigned>(i);
    block.threads[i].index = dim3(flat % dim.x, flat / dim.x % dim.y, flat / (dim.x * dim.y));
    start(block.threads[i], stacks.stack(i), kernel);
  }
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        block.index = dim3(x, y, z);
        run_block(block);
      }
    }
  }
  block.last_done = true;
  for (Thread& thread : block.threads) {
    resume(block, thread);
    thread.sanitizer.destroy();
  }
  current = outer;
}

const dim3& current_thread() {
  return current->running->index;
}
const dim3& current_block() {
  return current->index;
}
const dim3& current_block_dim() {
  return current->dim;
}
const dim3& current_grid_dim() {
  return current->grid;
}

void* shared_array(const void* site, std::size_t bytes) {
  std::unique_ptr<unsigned char[]>& array = current->shared[site];
  if (!array) {
    array = std::make_unique<unsigned char[]>(bytes);
    std::memset(array.get(), 0xff, bytes);
  }
  return array.get();
}

void __syncthreads() {
  yield();
}

}  // namespace emulator
