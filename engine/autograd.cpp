#include "engine/autograd.h"

#include <algorithm>
#include <queue>
#include <utility>

namespace ringgrad {
namespace {

struct AutogradState {
  bool enabled = true;
  std::uint64_t next_sequence = 1;
};

// Adds `gradient` to what has arrived at a node.
void arrive(Node& node, Tensor gradient) {
  const bool first = node.leaf ? !node.has_grad : !node.grad.defined();
  const bool has_memory = node.leaf && node.grad.defined();
  if (first && has_memory) {
    node.grad.copy_from(gradient);
  } else if (first && node.leaf && !gradient.exclusive()) {
    // A leaf's memory is its own: more gradients will be added to it in place.
    node.grad = Tensor::empty(gradient.context(), gradient.shape(), gradient.dtype());
    node.grad.copy_from(gradient);
  } else if (first) {
    node.grad = std::move(gradient);
  } else {
    // Memory that another tensor shares is not ours to overwrite.
    Tensor sum = has_memory || node.grad.exclusive()
                     ? node.grad
                     : Tensor::empty(gradient.context(), gradient.shape(), gradient.dtype());
    dispatch_floating(gradient.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::run(gradient.context(),
                   kernels::Add<T>{gradient.count(), node.grad.template data<T>(),
                                   gradient.template data<T>(), sum.template data<T>()});
    });
    node.grad = std::move(sum);
  }
  node.has_grad = node.leaf;
}

}  // namespace

Node::~Node() {
  // A node whose last owner was this one gives its inputs to the list before it dies.
  std::vector<std::shared_ptr<Node>> doomed = std::move(inputs);
  while (!doomed.empty()) {
    const std::shared_ptr<Node> node = std::move(doomed.back());
    doomed.pop_back();
    if (node != nullptr && node.use_count() == 1) {
      std::move(node->inputs.begin(), node->inputs.end(), std::back_inserter(doomed));
      node->inputs.clear();
    }
  }
}

bool Gradients::wanted(std::size_t input) const {
  return node_.inputs[input] != nullptr;
}

Gradients::Target Gradients::target(std::size_t input, const Shape& shape) {
  Node& node = *node_.inputs[input];
  if (!node.leaf) {
    return {fresh(input, shape), kernels::GradMode::overwrite};
  }
  if (!node.grad.defined()) {
    node.grad = Tensor::empty(output_.context(), shape, output_.dtype());
  }
  const bool add = std::exchange(node.has_grad, true);
  return {node.grad, add ? kernels::GradMode::accumulate : kernels::GradMode::overwrite};
}

Tensor Gradients::fresh(std::size_t input, const Shape& shape) {
  deliveries_.emplace_back(input, Tensor::empty(output_.context(), shape, output_.dtype()));
  return deliveries_.back().second;
}

Tensor Gradients::reuse_output(std::size_t input, const Shape& shape) {
  if (!output_.exclusive()) {
    return fresh(input, shape);
  }
  Tensor same = output_.view(shape);
  deliveries_.emplace_back(input, same);
  return same;
}

void Gradients::pass(std::size_t input, Tensor gradient) {
  if (wanted(input)) {
    deliveries_.emplace_back(input, std::move(gradient));
  }
}

void Gradients::deliver() {
  output_ = Tensor();
  for (auto& [input, gradient] : deliveries_) {
    arrive(*node_.inputs[input], std::move(gradient));
  }
}

bool grad_enabled(Context& context) {
  return context.state<AutogradState>().enabled;
}

NoGrad::NoGrad(Context& context)
    : context_(context), before_(std::exchange(context.state<AutogradState>().enabled, false)) {}
NoGrad::~NoGrad() {
  context_.state<AutogradState>().enabled = before_;
}

bool must_record(Context& context, std::initializer_list<const Tensor*> inputs) {
  return grad_enabled(context) && std::any_of(inputs.begin(), inputs.end(),
                                              [](const Tensor* t) { return t->requires_grad(); });
}

void record(Tensor& output, std::initializer_list<const Tensor*> inputs,
            std::function<void(Gradients&)> backward) {
  if (!must_record(output.context(), inputs)) {
    return;
  }
  auto node = std::make_shared<Node>();
  for (const Tensor* input : inputs) {
    node->inputs.push_back(input->node());
  }
  node->backward = std::move(backward);
  node->sequence = output.context().state<AutogradState>().next_sequence++;
  output.set_node(std::move(node));
}

void backward(const Tensor& loss, double scale) {
  RINGGRAD_CHECK(loss.count() == 1, "backward needs a scalar, got shape ", loss.shape().text());
  RINGGRAD_CHECK(loss.requires_grad(), "backward: nothing that requires a gradient led to this");
  RINGGRAD_CHECK(!loss.node()->leaf, "backward: nothing was computed from this leaf");
  Context& context = loss.context();
  const NoGrad no_grad(context);

  // Count what will arrive where. Leaves outlive a walk that an exception ends: their count must
  // not.
  struct LeafGuard {
    std::vector<std::shared_ptr<Node>> leaves;
    ~LeafGuard() {
      for (const std::shared_ptr<Node>& leaf : leaves) {
        leaf->pending = 0;
      }
    }
  } guard;
  std::vector<Node*> stack = {loss.node().get()};
  while (!stack.empty()) {
    Node* node = stack.back();
    stack.pop_back();
    RINGGRAD_CHECK(!node->freed, "backward was called twice on the same result");
    for (const std::shared_ptr<Node>& input : node->inputs) {
      if (input == nullptr || input->pending++ > 0) {
        continue;
      }
      if (input->leaf) {
        guard.leaves.push_back(input);
      } else {
        stack.push_back(input.get());
      }
    }
  }

  const auto later = [](const std::shared_ptr<Node>& a, const std::shared_ptr<Node>& b) {
    return a->sequence < b->sequence;
  };
  std::priority_queue<std::shared_ptr<Node>, std::vector<std::shared_ptr<Node>>, decltype(later)>
      ready(later);
  Tensor seed = Tensor::empty(context, loss.shape(), loss.dtype());
  dispatch_floating(loss.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::run(context, kernels::FillConstant<T>{1, static_cast<T>(scale), seed.data<T>()});
  });
  arrive(*loss.node(), std::move(seed));
  ready.push(loss.node());
  while (!ready.empty()) {
    const std::shared_ptr<Node> node = ready.top();
    ready.pop();
    {
      Gradients gradients(*node, std::exchange(node->grad, Tensor()));
      node->backward(gradients);
      node->backward = nullptr;  // what it had saved is freed here
      gradients.deliver();
    }
    node->freed = true;
    for (std::shared_ptr<Node>& input : node->inputs) {
      if (input == nullptr || --input->pending > 0) {
        continue;
      }
      if (!input->leaf) {
        ready.push(input);
      } else if (input->hook) {
        input->hook();
      }
    }
    node->inputs.clear();
  }
}

void clear_grad(const Tensor& leaf) {
  leaf.node()->has_grad = false;
}

}  // namespace ringgrad
