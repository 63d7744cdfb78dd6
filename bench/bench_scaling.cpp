// Data-parallel training steps: images/s of 1, 2 and 4 ranks (or as many as asked) over one batch
// that they share, the efficiency against one process with all threads, and what share of the
// communication was hidden behind backward.
//
// usage: bench_scaling [--work resnet18-32]          starts itself: replicas and processes
// A rank of its own kind, started by `ringgrad launch`, measures and prints one line.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <thread>

#include "bench/works.h"
#include "comm/ddp.h"
#include "comm/process_group.h"
#include "engine/functions.h"
#include "engine/sgd.h"
#include "kernels/backends.h"
#include "models/registry.h"
#include "runtime/cpu_features.h"

namespace ringgrad::bench {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Measured {
  double step_ms, exposed_ms, communication_ms;
};

// Steps of this rank's share of the batch.
Measured measure(const Work& work, comm::Communicator& group, Context& context, int steps) {
  const int batch = work.batch / group.size();
  const auto model = make_model(work.model, {work.classes, false});
  model->to(context, 0);
  const FlatParameters parameters(context, *model, comm::shared_gradients(context, group));
  SGD optimizer(parameters, SgdOptions{0.001, 0.9, 0, false});
  comm::DistributedDataParallel ddp(parameters, group);
  const Tensor images = Tensor::empty(context, {batch, work.size, work.size, 3});
  kernels::run(context, kernels::FillRandom<float>{images.count(), kernels::Distribution::uniform,
                                                   0, 1, static_cast<std::uint64_t>(group.rank()),
                                                   0, images.data<float>()});
  std::vector<std::int32_t> classes;
  for (int i = 0; i < batch; ++i) {
    classes.push_back(i % work.classes);
  }
  const Tensor labels = Tensor::from_host(context, {batch}, classes);
  const Stream& stream = context.compute_stream();
  std::vector<double> step_ms, exposed_ms, communication_ms;
  for (int step = -3; step < steps; ++step) {
    group.barrier(stream)->wait(stream);
    const auto start = Clock::now();
    optimizer.clear_gradients();
    const Tensor loss = cross_entropy((*model)(images), labels);
    backward(loss);
    const auto end_of_backward = Clock::now();
    ddp.finish();
    const double exposed = milliseconds_since(end_of_backward);
    optimizer.step();
    RINGGRAD_CHECK(std::isfinite(loss.item()), "the loss is not finite");
    if (step >= 0) {
      step_ms.push_back(milliseconds_since(start));
      exposed_ms.push_back(exposed);
    }
  }
  // The same gradients with nothing to hide behind.
  const Tensor& gradients = parameters.gradients();
  for (int i = 0; i < 7; ++i) {
    group.barrier(stream)->wait(stream);
    const auto start = Clock::now();
    group
        .all_reduce(gradients.raw(), gradients.count(), DType::f32, comm::ReduceOp::average, stream)
        ->wait(stream);
    communication_ms.push_back(milliseconds_since(start));
  }
  return {median(step_ms), median(exposed_ms), median(communication_ms)};
}

void print_line(const Work& work, const char* kind, int ranks, int threads, const Measured& m) {
  const double hidden =
      ranks > 1 ? 100 * (1 - std::min(1.0, m.exposed_ms / m.communication_ms)) : 0;
  std::printf(
      "%-12s %-10s %2d ranks x %d threads  %8.1f images/s  communication %6.2f ms, %3.0f %% "
      "hidden\n",
      work.name.c_str(), kind, ranks, threads, 1000.0 * work.batch / m.step_ms,
      ranks > 1 ? m.communication_ms : 0.0, hidden);
  std::fflush(stdout);
}

void run_replicas(const Work& work, int ranks, int threads, int steps) {
  auto communicators = comm::make_thread_communicators(ranks, std::chrono::seconds(60));
  auto contexts = kernels::open_contexts("cpu", ranks, threads);
  std::vector<std::thread> replicas;
  for (int rank = 0; rank < ranks; ++rank) {
    replicas.emplace_back([&, i = static_cast<std::size_t>(rank)] {
      const Measured m = measure(work, *communicators[i], *contexts[i], steps);
      if (i == 0) {
        print_line(work, "replicas", ranks, threads, m);
      }
    });
  }
  for (std::thread& replica : replicas) {
    replica.join();
  }
}

int main_of(int argc, char** argv) {
  std::string name = "resnet18-32";
  int steps = 9;
  std::vector<int> rank_counts = {2, 4};
  CLI::App app{"Times data-parallel training steps."};
  app.add_option("--work", name, "cifar-net, resnet18-224 or resnet18-32")->capture_default_str();
  app.add_option("--steps", steps, "Steps to time, after three that are not")
      ->capture_default_str();
  app.add_option("--ranks", rank_counts, "How many share the batch, beside one process alone")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const Work& work = work_named(name);
  const int cores = cpu_features().cores;
  if (const auto place = comm::placement_from(comm::process_environment, "")) {
    const int threads = std::max(1, cores / place->size);
    const auto group = comm::join_process_group(*place, {});
    const auto context = kernels::open_context("cpu", threads);
    const Measured m = measure(work, *group, *context, steps);
    if (place->rank == 0) {
      print_line(work, "processes", place->size, threads, m);
    }
    return 0;
  }
  const auto alone = comm::make_single_communicator();
  const auto context = kernels::open_context("cpu", cores);
  print_line(work, "one", 1, cores, measure(work, *alone, *context, steps));
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  for (const int ranks : rank_counts) {
    run_replicas(work, ranks, std::max(1, cores / ranks), steps);
    const std::string command =
        concat((self.parent_path().parent_path() / "ringgrad").string(), " launch -np ", ranks,
               " -- ", self.string(), " --work ", name, " --steps ", steps, " 2>/dev/null");
    RINGGRAD_CHECK(std::system(command.c_str()) == 0, "failed: ", command);
  }
  return 0;
}

}  // namespace
}  // namespace ringgrad::bench

int main(int argc, char** argv) {
  try {
    return ringgrad::bench::main_of(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_scaling: %s\n", error.what());
    return 2;
  }
}
