#include "engine/tensor.h"

#include "engine/autograd.h"

namespace ringgrad {

Tensor Tensor::empty(Context& context, Shape shape, DType dtype) {
  Tensor tensor;
  tensor.context_ = &context;
  tensor.shape_ = shape;
  tensor.dtype_ = dtype;
  const auto bytes = static_cast<std::size_t>(tensor.bytes());
  tensor.storage_ = std::make_shared<Buffer>(Buffer::on_device(context, bytes));
  return tensor;
}

Tensor Tensor::zeros(Context& context, Shape shape, DType dtype) {
  Tensor tensor = empty(context, shape, dtype);
  tensor.fill_zero();
  return tensor;
}

Tensor Tensor::over(Context& context, Shape shape, DType dtype, void* data,
                    std::shared_ptr<void> owner) {
  Tensor tensor;
  tensor.context_ = &context;
  tensor.shape_ = shape;
  tensor.dtype_ = dtype;
  const auto bytes = static_cast<std::size_t>(tensor.bytes());
  tensor.storage_ = std::make_shared<Buffer>(Buffer::foreign(data, bytes, std::move(owner)));
  return tensor;
}

Tensor Tensor::view(Shape shape) const {
  RINGGRAD_CHECK(shape.count() == count(), "view: ", shape_.text(), " has ", count(), " elements, ",
                 shape.text(), " has ", shape.count());
  return range(0, shape);
}

Tensor Tensor::range(Index begin, Shape shape) const {
  RINGGRAD_CHECK(begin >= 0 && begin + shape.count() <= count(), "range: elements ", begin, " to ",
                 begin + shape.count(), " of a tensor of ", count());
  Tensor tensor = detach();
  tensor.shape_ = shape;
  tensor.offset_ += static_cast<std::size_t>(begin) * size_of(dtype_);
  return tensor;
}

Tensor Tensor::detach() const {
  Tensor tensor = *this;
  tensor.node_.reset();
  return tensor;
}

void Tensor::copy_from_host(const void* values, Index given) {
  RINGGRAD_CHECK(given == bytes(), "a tensor of shape ", shape_.text(), " holds ", bytes(),
                 " bytes, ", given, " were given");
  Stream& stream = context_->compute_stream();
  context_->device().copy(raw(), values, static_cast<std::size_t>(given), CopyKind::host_to_device,
                          stream.handle());
  stream.synchronize();
}

void Tensor::copy_to_host(void* values, Index wanted) const {
  RINGGRAD_CHECK(wanted == bytes(), "a tensor of shape ", shape_.text(), " holds ", bytes(),
                 " bytes, ", wanted, " were asked for");
  Stream& stream = context_->compute_stream();
  context_->device().copy(values, raw(), static_cast<std::size_t>(wanted), CopyKind::device_to_host,
                          stream.handle());
  stream.synchronize();
}

void Tensor::copy_from(const Tensor& other) {
  RINGGRAD_CHECK(shape_ == other.shape_ && dtype_ == other.dtype_, "copy of ", other.shape_.text(),
                 " ", name_of(other.dtype_), " to ", shape_.text(), " ", name_of(dtype_));
  context_->device().copy(raw(), other.raw(), static_cast<std::size_t>(bytes()),
                          CopyKind::device_to_device, context_->compute_stream().handle());
}

void Tensor::fill_zero() {
  context_->device().fill_zero(raw(), static_cast<std::size_t>(bytes()),
                               context_->compute_stream().handle());
}

double Tensor::item() const {
  RINGGRAD_CHECK(count() == 1, "item() of a tensor of shape ", shape_.text());
  return dispatch_floating(
      dtype_, [&](auto zero) { return static_cast<double>(to_host<decltype(zero)>().front()); });
}

void Tensor::set_requires_grad() {
  RINGGRAD_CHECK(node_ == nullptr, "a tensor that is on the tape already cannot become a leaf");
  node_ = std::make_shared<Node>();
  node_->leaf = true;
}

Tensor Tensor::grad() const {
  return node_ != nullptr && node_->leaf && node_->has_grad ? node_->grad : Tensor();
}

}  // namespace ringgrad
