#include "engine/layers.h"

#include <cmath>

namespace ringgrad {
namespace {

Initializer uniform_by_fan_in(Index fan_in) {
  return {Initializer::Kind::uniform, 1.0 / std::sqrt(static_cast<double>(fan_in))};
}

}  // namespace

Conv2d::Conv2d(Index in, Index out, Index kernel, Conv2dLayerOptions layer_options)
    : options(layer_options),
      weight{
          {out, kernel, kernel, in}, uniform_by_fan_in(in * kernel * kernel), Layout::filter, {}},
      bias{{out}, uniform_by_fan_in(in * kernel * kernel), Layout::plain, {}} {}

Tensor Conv2d::forward(const Tensor& x) {
  return conv2d(x, weight, bias, {options.stride, options.pad});
}

void Conv2d::members(Members& m) {
  m("weight", weight);
  if (options.bias) {
    m("bias", bias);
  }
}

Linear::Linear(Index in, Index out, bool with_bias)
    : weight{{out, in}, uniform_by_fan_in(in), Layout::plain, {}},
      bias{with_bias ? Shape{out} : Shape{0}, uniform_by_fan_in(in), Layout::plain, {}} {}

Tensor Linear::forward(const Tensor& x) {
  return linear(x, weight, bias);
}

void Linear::members(Members& m) {
  m("weight", weight);
  if (bias.shape.count() > 0) {
    m("bias", bias);
  }
}

BatchNorm2d::BatchNorm2d(Index channels, double eps_, double momentum_)
    : eps(eps_),
      momentum(momentum_),
      weight{{channels}, {Initializer::Kind::constant, 1}, Layout::plain, {}},
      bias{{channels}, {Initializer::Kind::constant, 0}, Layout::plain, {}},
      running_mean{{channels}, 0, {}},
      running_var{{channels}, 1, {}} {}

Tensor BatchNorm2d::normalize(const Tensor& x, const Tensor& residual, bool relu) {
  if (training() && x.count() > 0) {
    ++num_batches_tracked;
  }
  return batch_norm(x, weight, bias, running_mean.tensor, running_var.tensor, residual,
                    {eps, momentum, training(), relu, sum_over_replicas});
}

void BatchNorm2d::members(Members& m) {
  m("weight", weight)("bias", bias);
  m("running_mean", running_mean)("running_var", running_var);
  m("num_batches_tracked", num_batches_tracked);
}

}  // namespace ringgrad
