// The tape: reverse-mode differentiation of whatever was computed.
//
// Every operation on a tensor that requires a gradient leaves a Node behind: who its inputs were,
// and a closure that turns the gradient of its output into gradients of its inputs, holding no more
// memory than that needs.
//
//      x ──▶ [conv] ──▶ [relu] ──▶ [linear] ──▶ [loss]        forward: sequence 1, 2, 3, 4
//      dw ◀── [conv] ◀── [relu] ◀── [linear] ◀── 1            backward: 4, 3, 2, 1
//
// backward(loss) first counts, for every node that it can reach, how many gradients will arrive
// there; then it takes ready nodes in reverse order of their creation, runs each closure once all
// has arrived, and frees the closure and the gradient at once. Nothing is recursive, so depth costs
// no stack. When the last gradient of a leaf has arrived, the leaf's hook fires, while the walk
// goes on elsewhere: this is where data-parallel training starts to reduce it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/tensor.h"
#include "kernels/kernels.h"

namespace ringgrad {

class Gradients;

struct Node {
  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node();  // iterative, however long the chain behind it

  std::vector<std::shared_ptr<Node>> inputs;  // null where no gradient is wanted
  std::function<void(Gradients&)> backward;
  std::uint64_t sequence = 0;
  Tensor grad;  // of the output: for a leaf it stays, and its memory is reused
  bool leaf = false;
  bool has_grad = false;       // of a leaf: `grad` holds a gradient
  std::function<void()> hook;  // of a leaf: its gradient is final
  int pending = 0;             // gradients that have yet to arrive, during backward
  bool freed = false;          // backward has been here
};

// What an operation's closure sees during backward.
class Gradients {
 public:
  struct Target {
    Tensor tensor;
    kernels::GradMode mode;
  };

  // The gradient of the operation's output.
  const Tensor& output() const { return output_; }
  // Whether a gradient of input i is wanted at all.
  bool wanted(std::size_t input) const;
  // Where the gradient of input i goes, and whether it is added: for kernels that can add
  // (weights).
  Target target(std::size_t input, const Shape& shape);
  // A fresh tensor of this shape, to be written whole; it is handed on to input i afterwards.
  Tensor fresh(std::size_t input, const Shape& shape);
  // The output's gradient itself if nobody else holds it and it may be overwritten; else a fresh
  // one.
  Tensor reuse_output(std::size_t input, const Shape& shape);
  // Hands on an existing tensor as the gradient of input i.
  void pass(std::size_t input, Tensor gradient);

 private:
  friend void backward(const Tensor& loss, double scale);
  Gradients(Node& node, Tensor output) : node_(node), output_(std::move(output)) {}
  void deliver();

  Node& node_;
  Tensor output_;
  std::vector<std::pair<std::size_t, Tensor>> deliveries_;
};

// True while operations on this replica leave nodes behind.
bool grad_enabled(Context& context);

// While it lives, operations of the replica record nothing: evaluation, updates.
class NoGrad {
 public:
  explicit NoGrad(Context& context);
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;
  ~NoGrad();

 private:
  Context& context_;
  bool before_;
};

// True if an operation on these inputs must be recorded.
bool must_record(Context& context, std::initializer_list<const Tensor*> inputs);
// Puts `output` on the tape: `backward` will see its gradient. Inputs that require none may be
// undefined. This is how an operation is added, here or in another program; see functions.cpp.
void record(Tensor& output, std::initializer_list<const Tensor*> inputs,
            std::function<void(Gradients&)> backward);

// Computes the gradients of every leaf that the scalar `loss` depends on, adding to those that are
// there, of scale * loss. The graph is freed; a second call on it is an Error.
void backward(const Tensor& loss, double scale = 1);

// Forgets the gradient of a leaf; its memory is kept and overwritten by the next one.
void clear_grad(const Tensor& leaf);

}  // namespace ringgrad
