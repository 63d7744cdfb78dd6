// Times whole training steps (forward, loss, backward, SGD with momentum) of one work on random
// images.
//
// Alone it prints milliseconds per step (minimum, median, 99th percentile), images per second and
// peak memory. With --serve it answers each line "N" on standard input with the milliseconds of N
// steps, so that a driver can alternate it with a peer; the line "end" prints the peak memory in
// MiB.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "bench/works.h"
#include "engine/functions.h"
#include "engine/sgd.h"
#include "kernels/backends.h"
#include "kernels/kernels.h"
#include "models/registry.h"

namespace ringgrad::bench {
namespace {

class Step {
 public:
  Step(const Work& work, const std::string& device, int threads)
      : context_(kernels::open_context(device, threads)),
        model_(make_model(work.model, {work.classes, false})),
        images_(Tensor::empty(*context_, {work.batch, work.size, work.size, 3})) {
    model_->to(*context_, 0);
    parameters_ = std::make_unique<FlatParameters>(*context_, *model_);
    optimizer_ = std::make_unique<SGD>(*parameters_, SgdOptions{0.001, 0.9, 0, false});
    kernels::run(*context_,
                 kernels::FillRandom<float>{images_.count(), kernels::Distribution::uniform, 0, 1,
                                            0, 0, images_.data<float>()});
    std::vector<std::int32_t> labels;
    for (int i = 0; i < work.batch; ++i) {
      labels.push_back(i % work.classes);
    }
    labels_ = Tensor::from_host(*context_, {work.batch}, labels);
  }

  // Milliseconds of one step, the loss read back.
  double run() {
    const auto start = std::chrono::steady_clock::now();
    optimizer_->clear_gradients();
    const Tensor loss = cross_entropy((*model_)(images_), labels_);
    backward(loss);
    optimizer_->step();
    RINGGRAD_CHECK(std::isfinite(loss.item()), "the loss is not finite");
    const auto end = std::chrono::steady_clock::now();
    return std::chrono::duration<double, std::milli>(end - start).count();
  }

 private:
  std::unique_ptr<Context> context_;
  std::unique_ptr<Module> model_;
  Tensor images_, labels_;
  std::unique_ptr<FlatParameters> parameters_;
  std::unique_ptr<SGD> optimizer_;
};

long peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

int main_of(int argc, char** argv) {
  std::string name = "cifar-net";
  std::string device = "cpu";
  int threads = 0, batch = 0;
  int steps = 20;
  bool serve = false;
  CLI::App app{"Times training steps."};
  app.add_option("--work", name, "cifar-net, resnet18-224 or resnet18-32")->capture_default_str();
  app.add_option("--device", device, "cpu, reference, cuda[:N]")->capture_default_str();
  app.add_option("--threads", threads, "CPU threads; 0: all cores");
  app.add_option("--batch", batch, "Images per step; 0: as the work says");
  app.add_option("--steps", steps, "Steps to time, after two that are not")->capture_default_str();
  app.add_flag("--serve", serve, "Answer lines on standard input");
  CLI11_PARSE(app, argc, argv);
  Work work = work_named(name);
  if (batch > 0) {
    work.batch = batch;
  }
  Step step(work, device, threads);
  step.run();
  step.run();
  if (serve) {
    std::printf("ready\n");
    std::fflush(stdout);
    for (std::string line; std::getline(std::cin, line);) {
      if (line == "end") {
        std::printf("%ld\n", peak_mib());
      } else {
        for (int i = std::stoi(line); i > 0; --i) {
          std::printf("%.4f%s", step.run(), i > 1 ? " " : "\n");
        }
      }
      std::fflush(stdout);
    }
    return 0;
  }
  std::vector<double> times;
  for (int i = 0; i < steps; ++i) {
    times.push_back(step.run());
  }
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  std::printf("%s: min %.2f p50 %.2f p99 %.2f ms, %.1f images/s, peak memory %ld MiB\n",
              work.name.c_str(), times.front(), median, times[times.size() * 99 / 100],
              1000 * work.batch / median, peak_mib());
  return 0;
}

}  // namespace
}  // namespace ringgrad::bench

int main(int argc, char** argv) {
  try {
    return ringgrad::bench::main_of(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_step: %s\n", error.what());
    return 2;
  }
}
