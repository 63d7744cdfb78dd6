// Stochastic gradient descent over flat memory; conventions of torch.optim.SGD (dampening 0).
#pragma once

#include "engine/flat_parameters.h"

namespace ringgrad {

struct SgdOptions {
  double lr = 0.001;
  double momentum = 0.9;
  double weight_decay = 0;
  bool nesterov = false;
};

class SGD {
 public:
  // `parameters` must outlive the optimizer.
  SGD(const FlatParameters& parameters, SgdOptions options);

  // One update from the gradients that are there; parameters that backward did not reach have
  // gradient 0.
  void step();
  void clear_gradients() const { parameters_.clear_gradients(); }

  void set_lr(double lr);
  double lr() const { return options_.lr; }
  const SgdOptions& options() const { return options_; }
  // The momentum buffer, laid out as FlatParameters::values(); undefined without momentum.
  const Tensor& velocity() const { return velocity_; }

 private:
  void upload_lr();

  const FlatParameters& parameters_;
  SgdOptions options_;
  Tensor velocity_;
  Tensor device_lr_;  // (1) f32
};

}  // namespace ringgrad
