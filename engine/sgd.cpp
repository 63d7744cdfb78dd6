#include "engine/sgd.h"

#include "kernels/kernels.h"

namespace ringgrad {

SGD::SGD(const FlatParameters& parameters, SgdOptions options)
    : parameters_(parameters),
      options_(options),
      device_lr_(Tensor::empty(parameters.context(), {1}, DType::f32)) {
  RINGGRAD_CHECK(options.momentum >= 0, "momentum ", options.momentum, " is negative");
  RINGGRAD_CHECK(!options.nesterov || options.momentum > 0, "Nesterov needs momentum above 0");
  if (options.momentum > 0) {
    const Tensor& values = parameters.values();
    velocity_ = Tensor::zeros(values.context(), values.shape(), values.dtype());
  }
  upload_lr();
}

void SGD::set_lr(double lr) {
  if (lr != options_.lr) {
    options_.lr = lr;
    upload_lr();
  }
}

void SGD::upload_lr() {
  const auto value = static_cast<float>(options_.lr);
  device_lr_.copy_from_host(&value, sizeof value);
}

void SGD::step() {
  parameters_.settle();
  const Tensor& values = parameters_.values();
  dispatch_floating(values.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::run(values.context(),
                 kernels::SgdStep<T>{
                     values.count(), device_lr_.data<float>(), static_cast<T>(options_.momentum),
                     static_cast<T>(options_.weight_decay), options_.nesterov,
                     parameters_.gradients().data<T>(),
                     velocity_.defined() ? velocity_.data<T>() : nullptr, values.data<T>()});
  });
}

}  // namespace ringgrad
