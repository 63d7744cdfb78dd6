#include "tests/support/ranks.h"

#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace ringgrad::test {

void run_ranks(int n, const std::function<void(comm::Communicator&)>& fn) {
  auto transports = comm::make_memory_transports(n, std::chrono::seconds(20));
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (auto& transport : transports) {
    threads.emplace_back([&, mine = transport.get()] {
      std::unique_ptr<comm::Transport> owned(mine);
      const auto communicator = comm::make_ring_communicator(std::move(owned));
      try {
        fn(*communicator);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(mutex);
        first = first ? first : std::current_exception();
      }
    });
    transport.release();
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  if (first) {
    std::rethrow_exception(first);
  }
}

}  // namespace ringgrad::test
