// The table of operations of a backend: from (operation, dtype) to a function. An operation is a
// struct of arguments (kernels.h); the table knows it by its C++ type, so a backend, or a program
// outside this tree, adds an operation without touching any list.
#pragma once

#include <string>
#include <typeindex>
#include <unordered_map>

#include "runtime/context.h"
#include "runtime/dtype.h"
#include "runtime/error.h"

namespace ringgrad::kernels {

class OperationTable {
 public:
  explicit OperationTable(std::string backend) : backend_(std::move(backend)) {}
  // Starts from another backend's operations, which add() then replaces one by one.
  OperationTable(std::string backend, const OperationTable& base)
      : backend_(std::move(backend)), entries_(base.entries_) {}

  // Args names itself (`kName`) and its element type (`Element`).
  template <class Args, void (*function)(Context&, const Args&)>
  void add() {
    entries_[typeid(Args)] = [](Context& context, const void* args) {
      function(context, *static_cast<const Args*>(args));
    };
  }

  template <class Args>
  bool has() const {
    return entries_.count(typeid(Args)) > 0;
  }

  template <class Args>
  void run(Context& context, const Args& args) const {
    const auto entry = entries_.find(typeid(Args));
    RINGGRAD_CHECK(entry != entries_.end(), "backend ", backend_, " has no ", Args::kName, " for ",
                   name_of(dtype_of<typename Args::Element>()));
    entry->second(context, &args);
  }

  const std::string& backend() const { return backend_; }

 private:
  using Function = void (*)(Context&, const void*);
  std::string backend_;
  std::unordered_map<std::type_index, Function> entries_;
};

// Runs an operation on the replica's compute stream.
template <class Args>
void run(Context& context, const Args& args) {
  context.operations().run(context, args);
}

}  // namespace ringgrad::kernels
