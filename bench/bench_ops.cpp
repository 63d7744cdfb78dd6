// Times each operation at the shapes of both networks (Google Benchmark: --benchmark_filter,
// --benchmark_out and so on apply). The kernels tests verify every operation; here inputs are
// random, never zeros, and buffers take turns. Counters: GFLOP/s with the percentage of the
// machine's measured peak, or GB/s with the percentage of its measured copy bandwidth.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <vector>

#include "bench/ceilings.h"
#include "kernels/backends.h"
#include "kernels/kernels.h"
#include "runtime/cpu_features.h"

namespace ringgrad::bench {
namespace {

using namespace kernels;

struct Machine {
  double gflops, gbps;
};

// Random device memory; `copies` of it, handed out in turn.
class Rotating {
 public:
  Rotating(Context& context, Index count, Index copies)
      : context_(context), count_(count), copies_(copies) {
    data_ = static_cast<float*>(context.arena().allocate(bytes(), stream()));
    run(context, FillRandom<float>{count * copies, Distribution::uniform, -1, 1, 1, 2, data_});
  }
  Rotating(const Rotating&) = delete;
  Rotating& operator=(const Rotating&) = delete;
  ~Rotating() { context_.arena().release(data_, bytes(), stream()); }
  float* at(Index round) const { return data_ + round % copies_ * count_; }

 private:
  std::size_t bytes() const { return sizeof(float) * static_cast<std::size_t>(count_ * copies_); }
  StreamHandle stream() const { return context_.compute_stream().handle(); }
  Context& context_;
  Index count_, copies_;
  float* data_;
};

// One benchmark: an operation of `flops` (or 0) that moves `bytes`, run on round i's buffers.
struct Case {
  std::string name;
  double flops, bytes;
  std::function<std::function<void(Index)>(Context&)> prepare;
};

constexpr Index kRotation = 3;

Case conv2d_case(const char* what, const Conv2dShape& d) {
  const Index x = d.n * d.h * d.w * d.c;
  const Index w = d.k * d.r * d.s * d.c;
  const Index y = d.n * d.p() * d.q() * d.k;
  const std::string kind = what;
  const std::string name = concat("conv2d_", what, "/", d.n, "x", d.h, "x", d.w, "x", d.c, "->",
                                  d.k, "_", d.r, "x", d.s, "_s", d.stride);
  return {name, 2.0 * static_cast<double>(y) * static_cast<double>(d.r * d.s * d.c),
          4.0 * static_cast<double>(x + w + y), [=](Context& context) {
            auto ax = std::make_shared<Rotating>(context, x, kRotation);
            auto aw = std::make_shared<Rotating>(context, w, 1);
            auto ay = std::make_shared<Rotating>(context, y, kRotation);
            return [=, &context](Index i) {
              if (kind == "forward") {
                run(context, Conv2dForward<float>{d, ax->at(i), aw->at(i), nullptr, ay->at(i)});
              } else if (kind == "backward_data") {
                run(context, Conv2dBackwardData<float>{d, ay->at(i), aw->at(i), ax->at(i)});
              } else {
                run(context, Conv2dBackwardWeights<float>{d, ax->at(i), ay->at(i), aw->at(i),
                                                          nullptr, GradMode::overwrite});
              }
            };
          }};
}

Case linear_case(const char* what, Index n, Index in, Index out) {
  const std::string kind = what;
  return {
      concat("linear_", what, "/", n, "x", in, "->", out), 2.0 * static_cast<double>(n * in * out),
      4.0 * static_cast<double>(n * in + in * out + n * out), [=](Context& context) {
        auto x = std::make_shared<Rotating>(context, n * in, kRotation);
        auto w = std::make_shared<Rotating>(context, in * out, 1);
        auto y = std::make_shared<Rotating>(context, n * out, kRotation);
        return [=, &context](Index i) {
          if (kind == "forward") {
            run(context, LinearForward<float>{n, in, out, x->at(i), w->at(i), nullptr, y->at(i)});
          } else if (kind == "backward_data") {
            run(context, LinearBackwardData<float>{n, in, out, y->at(i), w->at(i), x->at(i)});
          } else {
            run(context, LinearBackwardWeights<float>{n, in, out, x->at(i), y->at(i), w->at(i),
                                                      nullptr, GradMode::overwrite});
          }
        };
      }};
}

Case max_pool2d_case(bool forward, const Pool2dShape& d) {
  const Index x = d.n * d.h * d.w * d.c;
  const Index y = d.n * d.p() * d.q() * d.c;
  return {concat("max_pool2d_", forward ? "forward" : "backward", "/", d.n, "x", d.h, "x", d.w, "x",
                 d.c, "_", d.kernel, "_s", d.stride),
          0, static_cast<double>(4 * x + 5 * y), [=](Context& context) {
            auto ax = std::make_shared<Rotating>(context, x, kRotation);
            auto ay = std::make_shared<Rotating>(context, y, kRotation);
            auto tap = std::make_shared<Rotating>(context, y, 1);
            auto* taps = reinterpret_cast<std::uint8_t*>(tap->at(0));
            run(context, MaxPool2dForward<float>{d, true, ax->at(0), ay->at(0), taps});
            return [=, &context, keep = tap](Index i) {
              if (forward) {
                run(context, MaxPool2dForward<float>{d, true, ax->at(i), ay->at(i), taps});
              } else {
                run(context, MaxPool2dBackward<float>{d, ay->at(i), taps, ax->at(i)});
              }
            };
          }};
}

Case batch_norm_case(bool forward, Index m, Index c, bool residual) {
  const double passes = forward ? (residual ? 4 : 3) : (residual ? 8 : 7);
  return {concat("batch_norm_", forward ? "forward" : "backward", residual ? "_add" : "", "_relu/",
                 m, "x", c),
          0, passes * 4.0 * static_cast<double>(m * c), [=](Context& context) {
            auto x = std::make_shared<Rotating>(context, m * c, 2);
            auto y = std::make_shared<Rotating>(context, m * c, 2);
            auto dy = std::make_shared<Rotating>(context, m * c, 2);
            auto dx = std::make_shared<Rotating>(context, m * c, 2);
            auto r = std::make_shared<Rotating>(context, residual ? m * c : 1, 2);
            auto v = std::make_shared<Rotating>(context, c, 8);
            return [=, &context](Index i) {
              float* res = residual ? r->at(i) : nullptr;
              if (forward) {
                run(context,
                    BatchNormForward<float>{m, c, true, 1e-5F, 0.1F, x->at(i), v->at(0), v->at(1),
                                            res, v->at(2), v->at(3), v->at(4), v->at(5), y->at(i)});
              } else {
                run(context, BatchNormBackward<float>{m, c, x->at(i), y->at(i), dy->at(i), v->at(0),
                                                      v->at(4), v->at(5), dx->at(i), res, v->at(6),
                                                      v->at(7), GradMode::overwrite});
              }
            };
          }};
}

Case sgd_case(Index n) {
  return {
      concat("sgd_step/", n), 0, 20.0 * static_cast<double>(n), [=](Context& context) {
        auto w = std::make_shared<Rotating>(context, n, 1);
        auto g = std::make_shared<Rotating>(context, n, 1);
        auto v = std::make_shared<Rotating>(context, n, 1);
        auto lr = std::make_shared<Rotating>(context, 1, 1);
        return [=, &context](Index i) {
          run(context, SgdStep<float>{n, lr->at(0), 0.9F, 0, false, g->at(i), v->at(i), w->at(i)});
        };
      }};
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  const Conv2dShape shapes[] = {
      {64, 32, 32, 3, 32, 3, 3, 1, 1},    {64, 16, 16, 32, 64, 3, 3, 1, 1},
      {16, 224, 224, 3, 64, 7, 7, 2, 3},  {16, 56, 56, 64, 64, 3, 3, 1, 1},
      {16, 56, 56, 64, 128, 3, 3, 2, 1},  {16, 56, 56, 64, 128, 1, 1, 2, 0},
      {16, 28, 28, 128, 128, 3, 3, 1, 1}, {16, 28, 28, 128, 256, 3, 3, 2, 1},
      {16, 14, 14, 256, 256, 3, 3, 1, 1}, {16, 14, 14, 256, 512, 3, 3, 2, 1},
      {16, 7, 7, 512, 512, 3, 3, 1, 1},   {64, 8, 8, 64, 64, 3, 3, 1, 1},
      {64, 4, 4, 128, 128, 3, 3, 1, 1},   {64, 2, 2, 256, 256, 3, 3, 1, 1},
      {64, 2, 2, 256, 512, 3, 3, 2, 1},   {64, 1, 1, 512, 512, 3, 3, 1, 1}};
  for (const Conv2dShape& shape : shapes) {
    cases.push_back(conv2d_case("forward", shape));
    if (shape.c > 3) {
      cases.push_back(conv2d_case("backward_data", shape));
    }
    cases.push_back(conv2d_case("backward_weights", shape));
  }
  for (const char* what : {"forward", "backward_data", "backward_weights"}) {
    cases.push_back(linear_case(what, 64, 4096, 512));
    cases.push_back(linear_case(what, 64, 512, 10));
  }
  for (const bool forward : {true, false}) {
    cases.push_back(max_pool2d_case(forward, {64, 32, 32, 32, 2, 2, 0}));
    cases.push_back(max_pool2d_case(forward, {16, 112, 112, 64, 3, 2, 1}));
    cases.push_back(batch_norm_case(forward, 16 * 112 * 112, 64, false));
    cases.push_back(batch_norm_case(forward, 16 * 56 * 56, 64, true));
    cases.push_back(batch_norm_case(forward, 64 * 8 * 8, 64, true));
  }
  cases.push_back(sgd_case(2122186));
  cases.push_back(sgd_case(11689512));
  return cases;
}

void register_case(const Case& one, const Machine& machine, int threads) {
  benchmark::RegisterBenchmark(
      one.name.c_str(),
      [=](benchmark::State& state) {
        const auto context = open_context("cpu", threads);
        {
          const std::function<void(Index)> operation = one.prepare(*context);
          Index round = 0;
          operation(round++);
          for (auto _ : state) {
            operation(round++);
          }
        }
        const auto runs = static_cast<double>(state.iterations());
        const auto rate = [&](double amount) {
          return benchmark::Counter(runs * amount / 1e9, benchmark::Counter::kIsRate);
        };
        if (one.flops > 0) {
          state.counters["GFLOP/s"] = rate(one.flops);
          state.counters["%peak"] = rate(100 * one.flops / machine.gflops);
        } else {
          state.counters["GB/s"] = rate(one.bytes);
          state.counters["%copy"] = rate(100 * one.bytes / machine.gbps);
        }
      })
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}

}  // namespace
}  // namespace ringgrad::bench

int main(int argc, char** argv) {
  using namespace ringgrad;
  benchmark::Initialize(&argc, argv);
  const int threads = cpu_features().cores;
  const bench::Machine machine{bench::peak_gflops(threads), bench::copy_gbps(threads)};
  std::printf("%s: peak %.0f GFLOP/s, copy %.1f GB/s\n", cpu_features().description.c_str(),
              machine.gflops, machine.gbps);
  for (const bench::Case& one : bench::all_cases()) {
    bench::register_case(one, machine, threads);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
