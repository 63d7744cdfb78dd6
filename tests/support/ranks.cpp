#include "tests/support/ranks.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "comm/collectives.h"
#include "comm/link.h"
#include "comm/mpi/mpi_collectives.h"
#include "runtime/philox.h"
#include "tests/support/paths.h"

namespace ringgrad::test {
namespace {

// As processes of one host have them: descriptors handed on through a socket, mapped at both ends.
std::vector<std::unique_ptr<comm::Transport>> make_links(int n) {
  std::vector<std::unique_ptr<comm::OutLink>> out;
  std::vector<std::unique_ptr<comm::InLink>> in;
  const Deadline deadline(std::chrono::seconds(10));
  for (int rank = 0; rank < n; ++rank) {
    const std::string name = concat("ringgrad-test-", getpid(), "-", rank);
    const comm::Socket listener = comm::listen_local(name);
    const comm::Socket one_end = comm::connect_local(name, deadline);
    const comm::Socket other_end = comm::accept_one(listener, deadline);
    comm::SharedQueue queue;
    queue.hand_on(one_end, deadline);
    in.push_back(comm::make_shared_in_link(comm::SharedQueue::received(other_end, deadline)));
    out.push_back(comm::make_shared_out_link(std::move(queue)));
  }
  std::vector<std::unique_ptr<comm::Transport>> transports;
  for (int rank = 0; rank < n; ++rank) {
    auto& from_left = in[static_cast<std::size_t>((rank + n - 1) % n)];
    transports.push_back(comm::make_link_transport(
        rank, n, std::move(out[static_cast<std::size_t>(rank)]), std::move(from_left)));
  }
  return transports;
}

// Cuts the streams of another transport anywhere: mostly within an element.
class PiecesTransport : public comm::Transport {
 public:
  explicit PiecesTransport(std::unique_ptr<Transport> whole)
      : whole_(std::move(whole)), random_(static_cast<std::uint64_t>(whole_->rank()), 3) {}

  int rank() const override { return whole_->rank(); }
  int size() const override { return whole_->size(); }
  std::size_t try_send(const void* data, std::size_t bytes) override {
    return whole_->try_send(data, piece_of(bytes));
  }
  std::size_t try_receive(void* data, std::size_t bytes) override {
    return whole_->try_receive(data, piece_of(bytes));
  }
  void wait(bool sending, bool receiving, std::chrono::milliseconds at_most) override {
    whole_->wait(sending, receiving, at_most);
  }

 private:
  // Every power of two up to 64 KiB is as likely to be the limit.
  std::size_t piece_of(std::size_t bytes) {
    const std::uint32_t longest = 1U << (1 + random_.next_below(16));
    return std::min<std::size_t>(bytes, 1 + random_.next_below(longest));
  }
  std::unique_ptr<Transport> whole_;
  RandomStream random_;
};

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
  auto transports = path == Path::links ? make_links(n) : comm::make_memory_transports(n);
  const auto failure = std::make_shared<comm::Failure>();
  for (auto& transport : transports) {
    if (path == Path::pieces) {
      transport = std::make_unique<PiecesTransport>(std::move(transport));
    }
    const int rank = transport->rank();
    ranks.push_back(comm::make_host_communicator(
        comm::make_ring_collectives(std::move(transport), failure, timeout), rank, "messages"));
  }
  return ranks;
}

}  // namespace

bool mpirun_is_there() {
  return comm::mpi_is_built() && run_process({"sh", "-c", "command -v mpirun"}).code == 0;
}

ProcessOptions for_mpirun() {
  ProcessOptions process;
  process.environment = {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"};
  return process;
}

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
    const std::vector<std::string> more = for_mpirun().environment;
    process.environment.insert(process.environment.end(), more.begin(), more.end());
  }
  args.push_back(std::filesystem::read_symlink("/proc/self/exe").string());
  args.push_back(concat("--gtest_filter=", test.test_suite_name(), ".", test.name()));
  return run_process(args, process);
}

std::string name_of(Path path) {
  switch (path) {
    case Path::shared:
      return "shared";
    case Path::messages:
      return "messages";
    case Path::links:
      return "links";
    case Path::pieces:
      return "pieces";
  }
  return "";
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
