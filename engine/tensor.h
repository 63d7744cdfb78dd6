// Tensor: a shape and an element type over shared memory of one replica. Copying a Tensor shares
// the memory, as in PyTorch. Always dense, row-major.
#pragma once

#include <memory>
#include <vector>

#include "engine/shape.h"
#include "runtime/buffer.h"
#include "runtime/context.h"
#include "runtime/dtype.h"

namespace ringgrad {

struct Node;  // of the tape, autograd.h

class Tensor {
 public:
  // Undefined: no memory, no context.
  Tensor() = default;

  static Tensor empty(Context& context, Shape shape, DType dtype = DType::f32);
  static Tensor zeros(Context& context, Shape shape, DType dtype = DType::f32);
  // Over memory that somebody else keeps alive through `owner`.
  static Tensor over(Context& context, Shape shape, DType dtype, void* data,
                     std::shared_ptr<void> owner);
  template <class T>
  static Tensor from_host(Context& context, Shape shape, const std::vector<T>& values) {
    Tensor tensor = empty(context, shape, dtype_of<T>());
    tensor.copy_from_host(values.data(), static_cast<Index>(values.size()) * Index{sizeof(T)});
    return tensor;
  }

  bool defined() const { return storage_ != nullptr; }
  Context& context() const { return *context_; }
  const Shape& shape() const { return shape_; }
  Index size(int dimension) const { return shape_[dimension]; }
  Index count() const { return shape_.count(); }
  Index bytes() const { return count() * static_cast<Index>(size_of(dtype_)); }
  DType dtype() const { return dtype_; }

  void* raw() const { return static_cast<char*>(storage_->data()) + offset_; }
  // Aborts if T is not the tensor's element type.
  template <class T>
  T* data() const {
    RINGGRAD_ASSERT(dtype_of<T>() == dtype_);
    return static_cast<T*>(raw());
  }

  // The same memory under another shape of as many elements.
  Tensor view(Shape shape) const;
  // Elements [begin, begin + shape.count()) of the flat memory, as `shape`.
  Tensor range(Index begin, Shape shape) const;
  // The same memory, outside the tape.
  Tensor detach() const;
  // True where no other Tensor shares the memory, so that it may be overwritten.
  bool exclusive() const { return storage_.use_count() == 1; }

  // Copies wait for the compute stream.
  void copy_from_host(const void* values, Index bytes);
  void copy_to_host(void* values, Index bytes) const;
  // On the compute stream, without waiting. Shapes and element types must agree.
  void copy_from(const Tensor& other);
  void fill_zero();
  template <class T>
  std::vector<T> to_host() const {
    RINGGRAD_ASSERT(dtype_of<T>() == dtype_);
    std::vector<T> values(static_cast<std::size_t>(count()));
    copy_to_host(values.data(), bytes());
    return values;
  }
  // The one element of a floating tensor.
  double item() const;

  // ---- autograd (autograd.h) ----
  // A leaf that gradients are kept for; only before the tensor is used.
  void set_requires_grad();
  bool requires_grad() const { return node_ != nullptr; }
  // The gradient of a leaf; undefined before the first backward and after clear_grad.
  Tensor grad() const;
  const std::shared_ptr<Node>& node() const { return node_; }
  void set_node(std::shared_ptr<Node> node) { node_ = std::move(node); }

 private:
  Context* context_ = nullptr;
  Shape shape_;
  DType dtype_ = DType::f32;
  std::shared_ptr<Buffer> storage_;
  std::size_t offset_ = 0;
  std::shared_ptr<Node> node_;
};

}  // namespace ringgrad
