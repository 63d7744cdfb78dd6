// The layers, with PyTorch's names, arguments and initialisation.
#pragma once

#include "engine/functions.h"
#include "engine/module.h"

namespace ringgrad {

struct Conv2dLayerOptions {
  Index stride = 1;
  Index pad = 0;
  bool bias = true;
};

// Square filters of `kernel`. Weights and bias start uniform in ±1/sqrt(IN * kernel^2), as
// torch.nn.Conv2d's.
struct Conv2d : Module {
  Conv2d(Index in, Index out, Index kernel, Conv2dLayerOptions options = {});

  Tensor forward(const Tensor& x) override;
  void members(Members& m) override;

  Conv2dLayerOptions options;
  Parameter weight;  // (OUT, kernel, kernel, IN); stored as OIHW
  Parameter bias;    // (OUT), if options.bias
};

// Weights and bias start uniform in ±1/sqrt(IN), as torch.nn.Linear's.
struct Linear : Module {
  Linear(Index in, Index out, bool bias = true);

  Tensor forward(const Tensor& x) override;
  void members(Members& m) override;

  Parameter weight;  // (OUT, IN)
  Parameter bias;    // (OUT), if it was asked for
};

// torch.nn.BatchNorm2d, with what usually follows it done in the same pass.
struct BatchNorm2d : Module {
  explicit BatchNorm2d(Index channels, double eps = 1e-5, double momentum = 0.1);

  Tensor forward(const Tensor& x) override { return normalize(x, Tensor(), false); }
  // relu(batch_norm(x)).
  Tensor relu(const Tensor& x) { return normalize(x, Tensor(), true); }
  // relu(batch_norm(x) + residual).
  Tensor add_relu(const Tensor& x, const Tensor& residual) { return normalize(x, residual, true); }
  void members(Members& m) override;

  double eps, momentum;
  Parameter weight, bias;                  // (C): gamma and beta
  ModuleBuffer running_mean, running_var;  // (C)
  std::int64_t num_batches_tracked = 0;
  SumOverReplicas sum_over_replicas;  // empty: each replica has its own statistics

 private:
  Tensor normalize(const Tensor& x, const Tensor& residual, bool relu);
};

}  // namespace ringgrad
