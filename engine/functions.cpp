#include "engine/functions.h"

#include <algorithm>
#include <iterator>

namespace ringgrad {
namespace {

using kernels::GradMode;

template <class T>
T* data_or_null(const Tensor& t) {
  return t.defined() ? t.data<T>() : nullptr;
}

// Where the gradients of two parameters of one operation go, with the one mode that a kernel takes
// for both. A gradient that is not wanted goes into memory that is thrown away.
struct PairOfTargets {
  Tensor first, second;
  GradMode mode;
};

PairOfTargets targets_of_pair(Gradients& g, std::size_t first, const Shape& first_shape,
                              std::size_t second, const Shape& second_shape) {
  const auto target = [&](std::size_t input, const Shape& shape) {
    return g.wanted(input)
               ? g.target(input, shape)
               : Gradients::Target{Tensor::empty(g.output().context(), shape, g.output().dtype()),
                                   GradMode::overwrite};
  };
  Gradients::Target a = target(first, first_shape);
  Gradients::Target b = target(second, second_shape);
  if (a.mode != b.mode) {
    (a.mode == GradMode::overwrite ? a : b).tensor.fill_zero();
    a.mode = GradMode::accumulate;
  }
  return {a.tensor, b.tensor, a.mode};
}

void check_rank(const char* operation, const char* name, const Tensor& t, int rank) {
  RINGGRAD_CHECK(t.defined(), operation, ": ", name, " is undefined");
  RINGGRAD_CHECK(t.shape().rank() == rank, operation, ": ", name, " has shape ", t.shape().text(),
                 "; expected ", rank, " dimensions");
}

void check_shape(const char* operation, const char* name, const Tensor& t, const Shape& expected) {
  RINGGRAD_CHECK(t.shape() == expected, operation, ": ", name, " has shape ", t.shape().text(),
                 "; expected ", expected.text());
}

void check_labels(const char* operation, const Tensor& logits, const Tensor& labels) {
  check_rank(operation, "logits", logits, 2);
  check_shape(operation, "labels", labels, {logits.size(0)});
  RINGGRAD_CHECK(labels.dtype() == DType::i32, operation, ": labels are ", name_of(labels.dtype()),
                 "; expected i32");
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& bias, Conv2dOptions options) {
  check_rank("conv2d", "x", x, 4);
  check_rank("conv2d", "w", w, 4);
  RINGGRAD_CHECK(x.size(3) == w.size(3), "conv2d: x ", x.shape().text(), " has ", x.size(3),
                 " channels, the filters ", w.shape().text(), " take ", w.size(3));
  if (bias.defined()) {
    check_shape("conv2d", "bias", bias, {w.size(0)});
  }
  const kernels::Conv2dShape d{x.size(0), x.size(1), x.size(2),      x.size(3),  w.size(0),
                               w.size(1), w.size(2), options.stride, options.pad};
  RINGGRAD_CHECK(d.stride >= 1 && d.pad >= 0, "conv2d: stride ", d.stride, ", pad ", d.pad);
  RINGGRAD_CHECK(d.h + 2 * d.pad >= d.r && d.w + 2 * d.pad >= d.s, "conv2d: filters ",
                 w.shape().text(), " are larger than the padded image of ", x.shape().text());
  Context& context = x.context();
  Tensor y = Tensor::empty(context, {d.n, d.p(), d.q(), d.k}, x.dtype());
  dispatch_floating(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::run(context, kernels::Conv2dForward<T>{d, x.data<T>(), w.data<T>(),
                                                    data_or_null<T>(bias), y.data<T>()});
    record(y, {&x, &w, &bias}, [d, x = x.detach(), w = w.detach()](Gradients& g) {
      Context& ctx = x.context();
      const T* dy = g.output().data<T>();
      // Weights first: what they need is then final while the larger data gradient is computed.
      if (g.wanted(1) || g.wanted(2)) {
        const PairOfTargets d_wb = targets_of_pair(g, 1, w.shape(), 2, {d.k});
        kernels::run(ctx, kernels::Conv2dBackwardWeights<T>{
                              d, x.data<T>(), dy, d_wb.first.data<T>(),
                              g.wanted(2) ? d_wb.second.data<T>() : nullptr, d_wb.mode});
      }
      if (g.wanted(0)) {
        kernels::run(ctx, kernels::Conv2dBackwardData<T>{d, dy, w.data<T>(),
                                                         g.fresh(0, x.shape()).data<T>()});
      }
    });
  });
  return y;
}

Tensor max_pool2d(const Tensor& x, MaxPool2dOptions options) {
  check_rank("max_pool2d", "x", x, 4);
  const kernels::Pool2dShape d{x.size(0),      x.size(1),      x.size(2),  x.size(3),
                               options.kernel, options.stride, options.pad};
  RINGGRAD_CHECK(d.kernel >= 1 && d.kernel <= 15 && d.stride >= 1, "max_pool2d: kernel ", d.kernel,
                 ", stride ", d.stride, "; expected a kernel of 1 to 15 and a stride of 1 or more");
  RINGGRAD_CHECK(d.pad >= 0 && d.pad <= d.kernel / 2, "max_pool2d: pad ", d.pad,
                 "; expected 0 to half the kernel, ", d.kernel / 2);
  RINGGRAD_CHECK(d.h + 2 * d.pad >= d.kernel && d.w + 2 * d.pad >= d.kernel, "max_pool2d: window ",
                 d.kernel, " is larger than the padded image of ", x.shape().text());
  Context& context = x.context();
  const Shape out{d.n, d.p(), d.q(), d.c};
  Tensor y = Tensor::empty(context, out, x.dtype());
  Tensor tap = Tensor::empty(context, out, DType::u8);
  dispatch_floating(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::run(context, kernels::MaxPool2dForward<T>{d, options.relu, x.data<T>(), y.data<T>(),
                                                       tap.data<std::uint8_t>()});
    record(y, {&x}, [d, tap, shape = x.shape()](Gradients& g) {
      kernels::run(tap.context(),
                   kernels::MaxPool2dBackward<T>{d, g.output().data<T>(), tap.data<std::uint8_t>(),
                                                 g.fresh(0, shape).data<T>()});
    });
  });
  return y;
}

Tensor global_avg_pool2d(const Tensor& x) {
  check_rank("global_avg_pool2d", "x", x, 4);
  Context& context = x.context();
  const Index n = x.size(0);
  const Index hw = x.size(1) * x.size(2);
  const Index c = x.size(3);
  Tensor y = Tensor::empty(context, {n, c}, x.dtype());
  dispatch_floating(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::run(context, kernels::GlobalAvgPoolForward<T>{n, hw, c, x.data<T>(), y.data<T>()});
    record(y, {&x}, [n, hw, c, &context, shape = x.shape()](Gradients& g) {
      kernels::run(context, kernels::GlobalAvgPoolBackward<T>{n, hw, c, g.output().data<T>(),
                                                              g.fresh(0, shape).data<T>()});
    });
  });
  return y;
}

Tensor flatten(const Tensor& x) {
  check_rank("flatten", "x", x, 4);
  Context& context = x.context();
  const Index n = x.size(0);
  const Index hw = x.size(1) * x.size(2);
  const Index c = x.size(3);
  Tensor y = Tensor::empty(context, {n, c * hw}, x.dtype());
  dispatch_floating(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::run(context, kernels::TransposeImages<T>{n, hw, c, x.data<T>(), y.data<T>()});
    record(y, {&x}, [n, hw, c, &context, shape = x.shape()](Gradients& g) {
      kernels::run(context, kernels::TransposeImages<T>{n, c, hw, g.output().data<T>(),
                                                        g.fresh(0, shape).data<T>()});
    });
  });
  return y;
}

Tensor linear(const Tensor& x, const Tensor& w, const Tensor& bias) {
  check_rank("linear", "x", x, 2);
  check_rank("linear", "w", w, 2);
  const Index n = x.size(0);
  const Index in = x.size(1);
  const Index out = w.size(0);
  check_shape("linear", "w", w, {out, in});
  if (bias.defined()) {
    check_shape("linear", "bias", bias, {out});
  }
  Context& context = x.context();
  Tensor y = Tensor::empty(context, {n, out}, x.dtype());
  dispatch_floating(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::run(context, kernels::LinearForward<T>{n, in, out, x.data<T>(), w.data<T>(),
                                                    data_or_null<T>(bias), y.data<T>()});
    record(y, {&x, &w, &bias}, [n, in, out, x = x.detach(), w = w.detach()](Gradients& g) {
      Context& ctx = x.context();
      const T* dy = g.output().data<T>();
      if (g.wanted(1) || g.wanted(2)) {
        const PairOfTargets d_wb = targets_of_pair(g, 1, w.shape(), 2, {out});
        kernels::run(ctx, kernels::LinearBackwardWeights<T>{
                              n, in, out, x.data<T>(), dy, d_wb.first.data<T>(),
                              g.wanted(2) ? d_wb.second.data<T>() : nullptr, d_wb.mode});
      }
      if (g.wanted(0)) {
        kernels::run(ctx, kernels::LinearBackwardData<T>{n, in, out, dy, w.data<T>(),
                                                         g.fresh(0, x.shape()).data<T>()});
      }
    });
  });
  return y;
}

Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, Tensor& running_mean,
                  Tensor& running_var, const Tensor& residual, BatchNormOptions options) {
  RINGGRAD_CHECK(x.shape().rank() >= 2, "batch_norm: x has shape ", x.shape().text(),
                 "; expected (N,H,W,C) or (N,C)");
  const Index c = x.size(x.shape().rank() - 1);
  const Index m = c > 0 ? x.count() / c : 0;
  for (const auto& [name, tensor] : {std::pair{"gamma", &gamma},
                                     {"beta", &beta},
                                     {"running_mean", &running_mean},
                                     {"running_var", &running_var}}) {
    check_shape("batch_norm", name, *tensor, {c});
  }
  if (residual.defined()) {
    check_shape("batch_norm", "residual", residual, x.shape());
  }
  const SumOverReplicas& sum = options.sum_over_replicas;
  RINGGRAD_CHECK(!options.training || m != 1 || sum, "batch_norm: x of shape ", x.shape().text(),
                 " has one value per channel, whose variance is undefined; train with a larger "
                 "batch or image, or drop the partial batch");
  Context& context = x.context();
  Tensor y = Tensor::empty(context, x.shape(), x.dtype());
  dispatch_floating(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto eps = static_cast<T>(options.eps);
    if (!options.training) {
      RINGGRAD_CHECK(!must_record(context, {&x, &gamma, &beta, &residual}),
                     "batch_norm: no backward through running statistics; use NoGrad or training");
      kernels::run(context, kernels::BatchNormInference<T>{
                                m, c, options.relu, eps, x.data<T>(), gamma.data<T>(),
                                beta.data<T>(), data_or_null<T>(residual), running_mean.data<T>(),
                                running_var.data<T>(), y.data<T>()});
      return;
    }
    Tensor mean = Tensor::empty(context, {c}, x.dtype());
    Tensor inv_std = Tensor::empty(context, {c}, x.dtype());
    const kernels::BatchNormForward<T> forward{m,
                                               c,
                                               options.relu,
                                               eps,
                                               static_cast<T>(options.momentum),
                                               x.data<T>(),
                                               gamma.data<T>(),
                                               beta.data<T>(),
                                               data_or_null<T>(residual),
                                               running_mean.data<T>(),
                                               running_var.data<T>(),
                                               mean.data<T>(),
                                               inv_std.data<T>(),
                                               y.data<T>()};
    Tensor rows;  // (1), of all replicas
    if (sum) {
      const Tensor own = Tensor::empty(context, {2 * c + 1}, DType::f64);
      kernels::run(context, kernels::BatchNormSums<T>{m, c, x.data<T>(), running_mean.data<T>(),
                                                      own.data<double>()});
      const Tensor all = sum(own);
      rows = all.range(2 * c, {1});
      kernels::run(context, kernels::BatchNormForwardFromSums<T>{forward, all.data<double>()});
    } else {
      kernels::run(context, forward);
    }
    record(y, {&x, &gamma, &beta, &residual},
           [m, c, x = x.detach(), y = options.relu ? y.detach() : Tensor(), gamma = gamma.detach(),
            mean, inv_std, sum, rows](Gradients& g) {
             // Without ReLU the residual's gradient is dy itself.
             const bool residual_wanted = g.wanted(3);
             Tensor dresidual;
             if (residual_wanted && y.defined()) {
               dresidual = g.fresh(3, x.shape());
             } else if (residual_wanted) {
               g.pass(3, g.output());
             }
             Context& ctx = x.context();
             Tensor dx =
                 g.wanted(0) ? g.fresh(0, x.shape()) : Tensor::empty(ctx, x.shape(), x.dtype());
             const PairOfTargets d_gb = targets_of_pair(g, 1, gamma.shape(), 2, gamma.shape());
             const kernels::BatchNormBackward<T> backward{m,
                                                          c,
                                                          x.data<T>(),
                                                          data_or_null<T>(y),
                                                          g.output().data<T>(),
                                                          gamma.data<T>(),
                                                          mean.data<T>(),
                                                          inv_std.data<T>(),
                                                          dx.data<T>(),
                                                          data_or_null<T>(dresidual),
                                                          d_gb.first.data<T>(),
                                                          d_gb.second.data<T>(),
                                                          d_gb.mode};
             if (!sum) {
               kernels::run(ctx, backward);
               return;
             }
             const Tensor own = Tensor::empty(ctx, {2 * c}, DType::f64);
             kernels::run(
                 ctx, kernels::BatchNormGradientSums<T>{m, c, backward.x, backward.y, backward.dy,
                                                        backward.mean, own.data<double>()});
             const Tensor all = sum(own);
             kernels::run(
                 ctx, kernels::BatchNormBackwardFromSums<T>{
                          backward, own.data<double>(), all.data<double>(), rows.data<double>()});
           });
  });
  return y;
}

Tensor relu(const Tensor& x) {
  Context& context = x.context();
  Tensor y = Tensor::empty(context, x.shape(), x.dtype());
  dispatch_floating(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::run(context, kernels::ReluForward<T>{x.count(), x.data<T>(), y.data<T>()});
    record(y, {&x}, [y = y.detach()](Gradients& g) {
      const T* dy = g.output().data<T>();
      kernels::run(y.context(), kernels::ReluBackward<T>{y.count(), y.data<T>(), dy,
                                                         g.reuse_output(0, y.shape()).data<T>()});
    });
  });
  return y;
}

Tensor add(const Tensor& a, const Tensor& b) {
  check_shape("add", "b", b, a.shape());
  Context& context = a.context();
  Tensor y = Tensor::empty(context, a.shape(), a.dtype());
  dispatch_floating(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::run(context, kernels::Add<T>{a.count(), a.data<T>(), b.data<T>(), y.data<T>()});
    record(y, {&a, &b}, [](Gradients& g) {
      g.pass(0, g.output());
      g.pass(1, g.output());
    });
  });
  return y;
}

Tensor cross_entropy(const Tensor& logits, const Tensor& labels, CrossEntropyOptions options) {
  check_labels("cross_entropy", logits, labels);
  RINGGRAD_CHECK(options.label_smoothing >= 0 && options.label_smoothing <= 1,
                 "cross_entropy: label smoothing ", options.label_smoothing, "; expected 0 to 1");
  Context& context = logits.context();
  const Index n = logits.size(0);
  const Index classes = logits.size(1);
  RINGGRAD_CHECK(classes >= 1, "cross_entropy: logits of shape ", logits.shape().text(),
                 " have no classes");
  Tensor loss = Tensor::empty(context, {}, logits.dtype());
  Tensor log_sum = Tensor::empty(context, {n}, logits.dtype());
  dispatch_floating(logits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::run(context, kernels::CrossEntropyForward<T>{
                              n, classes, options.label_smoothing, options.ignore_index,
                              logits.data<T>(), labels.data<std::int32_t>(), log_sum.data<T>(),
                              loss.data<T>(), context.status_word()});
    record(loss, {&logits},
           [n, classes, options, logits = logits.detach(), labels, log_sum](Gradients& g) {
             kernels::run(logits.context(),
                          kernels::CrossEntropyBackward<T>{
                              n, classes, options.label_smoothing, options.ignore_index,
                              logits.data<T>(), labels.data<std::int32_t>(), log_sum.data<T>(),
                              g.output().data<T>(), g.fresh(0, logits.shape()).data<T>()});
           });
  });
  return loss;
}

Tensor correct_in_top_k(const Tensor& logits, const Tensor& labels, Index k) {
  check_labels("correct_in_top_k", logits, labels);
  Context& context = logits.context();
  Tensor count = Tensor::empty(context, {1}, DType::i64);
  dispatch_floating(logits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::run(context, kernels::CorrectInTopK<T>{logits.size(0), logits.size(1), k,
                                                    logits.data<T>(), labels.data<std::int32_t>(),
                                                    count.data<std::int64_t>()});
  });
  return count;
}

Tensor image_to_float(const Tensor& bytes, const Normalization& normalization, DType dtype) {
  check_rank("image_to_float", "x", bytes, 4);
  const Index c = bytes.size(3);
  RINGGRAD_CHECK(c >= 1 && c <= 4, "image_to_float: ", c, " channels; expected 1 to 4");
  Context& context = bytes.context();
  Tensor y = Tensor::empty(context, bytes.shape(), dtype);
  dispatch_floating(dtype, [&](auto zero) {
    using T = decltype(zero);
    kernels::ImageToFloat<T> args{bytes.count() / c,          c,          {}, {},
                                  bytes.data<std::uint8_t>(), y.data<T>()};
    std::copy(std::begin(normalization.mean), std::end(normalization.mean), args.mean);
    std::copy(std::begin(normalization.stddev), std::end(normalization.stddev), args.stddev);
    kernels::run(context, args);
  });
  return y;
}

std::uint64_t hash(const Tensor& x) {
  Tensor digest = Tensor::empty(x.context(), {1}, DType::i64);
  kernels::run(x.context(), kernels::HashBuffer<std::uint8_t>{
                                x.bytes(), static_cast<const std::uint8_t*>(x.raw()),
                                reinterpret_cast<std::uint64_t*>(digest.data<std::int64_t>())});
  return static_cast<std::uint64_t>(digest.to_host<std::int64_t>().front());
}

}  // namespace ringgrad
