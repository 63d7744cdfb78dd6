// All parameters of a model in one flat memory, all gradients in another, in reverse order of
// registration: backward finishes the last layers first, so gradients become final from the front.
// The optimizer updates everything in one pass; data-parallel training reduces ranges of the
// gradients in place.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/module.h"

namespace ringgrad {

class FlatParameters {
 public:
  struct Range {
    std::string name;
    Tensor tensor;  // the parameter, a leaf; its memory is values().range(begin, …)
    Index begin;    // in elements; a multiple of 64
    Index count;
  };

  // Memory of that many bytes, with its owner: a communicator may give memory that the host's ranks
  // share. Without data: as usual.
  struct Storage {
    void* data = nullptr;
    std::shared_ptr<void> owner;
  };
  using GradientStorage = std::function<Storage(std::size_t bytes)>;

  // Moves the parameters of `module`, which must have their values (Module::to), into flat memory
  // and makes its Tensors views of it. Replacing a layer afterwards needs a new FlatParameters.
  FlatParameters(Context& context, Module& module, const GradientStorage& storage = {});

  Context& context() const { return values_.context(); }
  const Tensor& values() const { return values_; }        // (n), gaps between parameters are zeros
  const Tensor& gradients() const { return gradients_; }  // (n), in the same places
  const std::vector<Range>& ranges() const { return ranges_; }

  // Forgets all gradients, without touching memory: the next backward overwrites them. A parameter
  // that no gradient reached counts as zero in the optimizer's step (settle).
  void clear_gradients() const;
  // Zeroes the gradients of parameters that backward did not reach; their names.
  std::vector<std::string> settle() const;

 private:
  std::vector<Range> ranges_;
  Tensor values_;
  Tensor gradients_;
};

}  // namespace ringgrad
