#include "engine/module.h"

#include "kernels/kernels.h"
#include "runtime/philox.h"

namespace ringgrad {
namespace {

void initialize(const Tensor& tensor, const Initializer& initializer, std::uint64_t seed,
                const std::string& name) {
  const std::uint64_t stream = StreamKey().add_text(name).value();
  dispatch_floating(tensor.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto value = static_cast<T>(initializer.value);
    T* data = tensor.data<T>();
    using kernels::Distribution;
    switch (initializer.kind) {
      case Initializer::Kind::constant:
        kernels::run(tensor.context(), kernels::FillConstant<T>{tensor.count(), value, data});
        break;
      case Initializer::Kind::uniform:
        kernels::run(tensor.context(), kernels::FillRandom<T>{tensor.count(), Distribution::uniform,
                                                              -value, value, seed, stream, data});
        break;
      case Initializer::Kind::normal:
        kernels::run(tensor.context(), kernels::FillRandom<T>{tensor.count(), Distribution::normal,
                                                              T{0}, value, seed, stream, data});
        break;
    }
  });
}

}  // namespace

Members& Members::operator()(const std::string& name, Parameter& parameter) {
  parameters.emplace_back(prefix_ + name, &parameter);
  return *this;
}

Members& Members::operator()(const std::string& name, ModuleBuffer& buffer) {
  buffers.emplace_back(prefix_ + name, &buffer);
  return *this;
}

Members& Members::operator()(const std::string& name, std::int64_t& counter) {
  counters.emplace_back(prefix_ + name, &counter);
  return *this;
}

Members& Members::operator()(const std::string& name, Module& module) {
  modules.push_back(&module);
  const std::string before = prefix_;
  prefix_ += name + ".";
  module.members(*this);
  prefix_ = before;
  return *this;
}

Members Module::all_members() {
  Members all;
  all.modules.push_back(this);
  members(all);
  return all;
}

void Module::to(Context& context, std::uint64_t seed, DType dtype) {
  const Members all = all_members();
  for (const auto& [name, parameter] : all.parameters) {
    if (!parameter->tensor.defined()) {
      parameter->tensor = Tensor::empty(context, parameter->shape, dtype);
      initialize(parameter->tensor, parameter->initializer, seed, name);
      parameter->tensor.set_requires_grad();
    }
  }
  for (const auto& [name, buffer] : all.buffers) {
    if (!buffer->tensor.defined()) {
      buffer->tensor = Tensor::empty(context, buffer->shape, dtype);
      initialize(buffer->tensor, {Initializer::Kind::constant, buffer->initial}, seed, name);
    }
  }
}

void Module::train(bool on) {
  for (Module* module : all_members().modules) {
    module->training_ = on;
  }
}

Index Module::parameter_count() {
  Index count = 0;
  for (const auto& [name, parameter] : all_members().parameters) {
    count += parameter->shape.count();
  }
  return count;
}

}  // namespace ringgrad
