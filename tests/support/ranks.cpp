#include "tests/support/ranks.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/collectives.h"
#include "tests/support/paths.h"

namespace ringgrad::test {
namespace {

std::vector<std::unique_ptr<comm::Communicator>> make_communicators(
    int n, Path path, std::chrono::milliseconds timeout) {
  if (n == 1) {
    std::vector<std::unique_ptr<comm::Communicator>> one;
    one.push_back(comm::make_single_communicator());
    return one;
  }
  if (path == Path::shared) {
    return comm::make_thread_communicators(n, timeout);
  }
  std::vector<std::unique_ptr<comm::Communicator>> ranks;
  const auto failure = std::make_shared<comm::Failure>();
  for (auto& transport : comm::make_memory_transports(n)) {
    const int rank = transport->rank();
    ranks.push_back(comm::make_host_communicator(
        comm::make_ring_collectives(std::move(transport), failure, timeout), rank, "messages"));
  }
  return ranks;
}

}  // namespace

comm::ProcessGroupOptions patient(int seconds, const std::string& transport) {
  comm::ProcessGroupOptions options;
  options.transport = transport;
  options.timeout = std::chrono::seconds(seconds);
  options.join_timeout = std::chrono::seconds(20);
  return options;
}

std::optional<Outcome> spawn_ranks(int n, const std::function<void(comm::Communicator&)>& body,
                                   const comm::ProcessGroupOptions& options,
                                   const ProcessOptions& given) {
  if (const auto place = comm::placement_from(comm::process_environment, "")) {
    const auto communicator = comm::join_process_group(*place, options);
    body(*communicator);
    return std::nullopt;
  }
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  std::vector<std::string> args{command_path(), "launch", "--np", std::to_string(n), "--"};
  ProcessOptions process = given;
  if (options.backend == "mpi") {
    args = {"mpirun", "--oversubscribe", "-np", std::to_string(n)};
    process.environment.emplace_back("OMPI_ALLOW_RUN_AS_ROOT=1");
    process.environment.emplace_back("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1");
  }
  args.push_back(std::filesystem::read_symlink("/proc/self/exe").string());
  args.push_back(concat("--gtest_filter=", test.test_suite_name(), ".", test.name()));
  return run_process(args, process);
}

std::string name_of(Path path) {
  return path == Path::shared ? "shared" : "messages";
}

void run_ranks(int n, const std::function<void(comm::Communicator&)>& fn, Path path,
               std::chrono::milliseconds timeout) {
  auto communicators = make_communicators(n, path, timeout);
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (auto& communicator : communicators) {
    threads.emplace_back([&, mine = communicator.get()] {
      try {
        fn(*mine);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(mutex);
        first = first ? first : std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  if (first) {
    std::rethrow_exception(first);
  }
}

}  // namespace ringgrad::test
