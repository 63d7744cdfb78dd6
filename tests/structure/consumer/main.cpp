// A module and an operation of one's own, outside ringgrad's tree.
#include <ringgrad/engine/autograd.h>
#include <ringgrad/engine/module.h>
#include <ringgrad/kernels/backends.h>

#include <cstdio>

using namespace ringgrad;

// y = x^2 for one number; its gradient is 2 x dy.
Tensor square(const Tensor& x) {
  Tensor y = Tensor::from_host<float>(x.context(), {}, {float(x.item() * x.item())});
  record(y, {&x}, [x = x.detach()](Gradients& g) {
    const float dx = float(2 * x.item() * g.output().item());
    g.fresh(0, {}).copy_from_host(&dx, sizeof dx);
  });
  return y;
}

struct Square : Module {
  Parameter scale{{}, {Initializer::Kind::constant, 6}, Layout::plain, {}};
  Tensor forward(const Tensor&) override { return square(scale); }
  void members(Members& m) override { m("scale", scale); }
};

int main() {
  const auto context = kernels::open_context("cpu");
  Square model;
  model.to(*context, 0);
  backward(model(Tensor()));
  std::printf("gradient %g\n", model.scale.tensor.grad().item());
}
