#include "engine/flat_parameters.h"

#include <algorithm>

#include "engine/autograd.h"

namespace ringgrad {

FlatParameters::FlatParameters(Context& context, Module& module, const GradientStorage& storage) {
  constexpr Index kAlignment = 64;
  auto parameters = module.all_members().parameters;
  std::reverse(parameters.begin(), parameters.end());
  RINGGRAD_CHECK(!parameters.empty(), "the model has no parameters");
  Index count = 0;
  for (const auto& [name, parameter] : parameters) {
    RINGGRAD_CHECK(parameter->tensor.defined(), "parameter ", name,
                   " has no values yet; call Module::to first");
    ranges_.push_back({name, {}, count, parameter->shape.count()});
    count = (count + parameter->shape.count() + kAlignment - 1) / kAlignment * kAlignment;
  }
  const DType dtype = parameters.front().second->tensor.dtype();
  values_ = Tensor::zeros(context, {count}, dtype);
  const Storage memory =
      storage ? storage(static_cast<std::size_t>(count) * size_of(dtype)) : Storage{};
  if (memory.data != nullptr) {
    gradients_ = Tensor::over(context, {count}, dtype, memory.data, memory.owner);
    gradients_.fill_zero();
  } else {
    gradients_ = Tensor::zeros(context, {count}, dtype);
  }
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    Range& range = ranges_[i];
    Parameter& parameter = *parameters[i].second;
    range.tensor = values_.range(range.begin, parameter.shape);
    range.tensor.copy_from(parameter.tensor.detach());
    range.tensor.set_requires_grad();
    range.tensor.node()->grad = gradients_.range(range.begin, parameter.shape);
    parameter.tensor = range.tensor;
  }
  context.compute_stream().synchronize();
  context.arena().trim();  // the parameters' first memory, of sizes that nothing else asks for
}

void FlatParameters::clear_gradients() const {
  for (const Range& range : ranges_) {
    clear_grad(range.tensor);
  }
}

std::vector<std::string> FlatParameters::settle() const {
  std::vector<std::string> missing;
  for (const Range& range : ranges_) {
    if (!range.tensor.node()->has_grad) {
      range.tensor.node()->grad.fill_zero();
      missing.push_back(range.name);
    }
  }
  return missing;
}

}  // namespace ringgrad
