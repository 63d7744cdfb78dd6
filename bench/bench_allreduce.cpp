// All-reduce of this project: as rank of several processes (under `ringgrad launch` or mpirun), or,
// with `threads:R`, of R replicas of one process.
// usage: bench_allreduce shared|foreign auto|tcp|threads:R [BYTES...]
#include <cstdlib>
#include <string>
#include <thread>

#include "bench/allreduce_table.h"
#include "comm/process_group.h"
#include "kernels/backends.h"

namespace {

using namespace ringgrad;

bool run(comm::Communicator& communicator, bool shared, const std::vector<std::int64_t>& sizes) {
  const auto context = kernels::open_context("cpu", 1);
  const Stream& stream = context->compute_stream();
  std::vector<float> foreign;
  std::shared_ptr<void> memory;
  bench::AllReduceRank ranks{
      communicator.rank(),
      communicator.size(),
      [&](std::int64_t count) {
        const auto n = static_cast<std::size_t>(count);
        memory = shared ? communicator.allocate(n * sizeof(float)) : nullptr;
        foreign.resize(memory == nullptr ? n : 0);
        return memory == nullptr ? foreign.data() : static_cast<float*>(memory.get());
      },
      [&](float* data, std::int64_t count) {
        communicator.all_reduce(data, count, DType::f32, comm::ReduceOp::sum, stream)->wait(stream);
      },
      [&] { communicator.barrier(stream)->wait(stream); },
      [&](std::vector<float>& values) {
        communicator
            .all_reduce(values.data(), static_cast<std::int64_t>(values.size()), DType::f32,
                        comm::ReduceOp::max, stream)
            ->wait(stream);
      }};
  return bench::print_allreduce_table(ranks, sizes);
}

int run_threads(int size, bool shared, const std::vector<std::int64_t>& sizes) {
  auto communicators = comm::make_thread_communicators(size, std::chrono::seconds(60));
  std::vector<std::thread> threads;
  std::atomic<bool> right{true};
  for (auto& communicator : communicators) {
    threads.emplace_back([&] {
      if (!run(*communicator, shared, sizes)) {
        right = false;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string buffers = argc > 1 ? argv[1] : "shared";
  const std::string path = argc > 2 ? argv[2] : "auto";
  const std::vector<std::int64_t> sizes = bench::sizes_from(argc, argv, 3);
  try {
    if (path.rfind("threads:", 0) == 0) {
      return run_threads(std::atoi(path.c_str() + 8), buffers == "shared", sizes);
    }
    const auto place = comm::placement_from(comm::process_environment, "");
    RINGGRAD_CHECK(place.has_value(), "start the ranks: ringgrad launch -np 2 -- ", argv[0]);
    comm::ProcessGroupOptions options;
    options.transport = path;
    options.timeout = std::chrono::seconds(60);
    const auto communicator = comm::init_process_group(options);
    return run(*communicator, buffers == "shared", sizes) ? 0 : 1;
  } catch (const Error& error) {
    std::fprintf(stderr, "bench_allreduce: %s\n", error.what());
    return 2;
  }
}
