// Modules: what has parameters. A module lists its members once, in members(); names, order,
// counting, initialisation, saving and training mode all follow from that list. Members are plain
// values, so a layer is replaced by assignment:
//
//   struct Classifier : Module {
//     Linear fc1{4096, 512}, fc2{512, 10};
//     void members(Members& m) override { m("fc1", fc1)("fc2", fc2); }
//     Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
//   };
//   Classifier model;
//   model.fc2 = Linear(512, 2);
//
// Parameters get memory and first values in to(), which leaves those alone that have them already.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/tensor.h"

namespace ringgrad {

// How a parameter starts: value, or uniform in [-value, value), or normal with deviation `value`.
struct Initializer {
  enum class Kind { constant, uniform, normal };
  Kind kind = Kind::constant;
  double value = 0;
};

// Whether a checkpoint stores the tensor as it lies in memory, or a (K,R,S,C) filter as OIHW.
enum class Layout { plain, filter };

struct Parameter {
  Shape shape;  // as in memory
  Initializer initializer;
  Layout layout = Layout::plain;
  Tensor tensor;  // undefined before Module::to

  operator const Tensor&() const { return tensor; }  // NOLINT(google-explicit-constructor)
};

// State that is saved but not trained: running statistics.
struct ModuleBuffer {
  Shape shape;
  double initial = 0;
  Tensor tensor;
};

class Module;

// Collects what a module lists, with the full name of each.
class Members {
 public:
  Members& operator()(const std::string& name, Parameter& parameter);
  Members& operator()(const std::string& name, ModuleBuffer& buffer);
  Members& operator()(const std::string& name, std::int64_t& counter);
  Members& operator()(const std::string& name, Module& module);

  std::vector<std::pair<std::string, Parameter*>> parameters;
  std::vector<std::pair<std::string, ModuleBuffer*>> buffers;
  std::vector<std::pair<std::string, std::int64_t*>> counters;
  std::vector<Module*> modules;

 private:
  std::string prefix_;
};

class Module {
 public:
  Module() = default;
  Module(const Module&) = default;
  Module(Module&&) = default;
  Module& operator=(const Module&) = default;
  Module& operator=(Module&&) = default;
  virtual ~Module() = default;

  virtual Tensor forward(const Tensor& x) = 0;
  // Lists parameters, buffers and submodules, in the order in which they are used.
  virtual void members(Members& m) = 0;

  Tensor operator()(const Tensor& x) { return forward(x); }

  Members all_members();
  // Gives memory and first values to every parameter and buffer without; each is initialised from
  // (seed, its name), so that neither order nor other layers matter. Parameters become leaves of
  // the tape.
  void to(Context& context, std::uint64_t seed, DType dtype = DType::f32);
  // Training (the default) or evaluation, for this module and all below.
  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }
  Index parameter_count();

 private:
  bool training_ = true;
};

// Any modules in a row; member i is named "i".
template <class M>
struct ModuleList {
  std::vector<M> items;

  void list(Members& m, const std::string& name) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      m(name + "." + std::to_string(i), items[i]);
    }
  }
  Tensor operator()(Tensor x) {
    for (M& item : items) {
      x = item(x);
    }
    return x;
  }
};

}  // namespace ringgrad
