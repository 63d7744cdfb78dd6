// The table of operations of a backend: from (operation, dtype) to the variants that compute it. An
// operation is a struct of arguments (kernels.h); the table knows it by its C++ type, so a backend,
// or a program outside this tree, adds an operation without touching any list.
#pragma once

#include <memory>
#include <string>
#include <typeindex>
#include <unordered_map>
#include <vector>

#include "runtime/context.h"
#include "runtime/dtype.h"
#include "runtime/error.h"

namespace ringgrad::kernels {

// One way to compute an operation. The predicates may be null: always.
template <class Args>
struct Variant {
  const char* name;  // of its technique
  void (*function)(Context&, const Args&);
  bool (*handles)(const Args&);  // its result is right for these shapes and addresses
  bool (*suits)(const Args&);    // it is worth taking where it stands

  bool can_run(const Args& args) const { return handles == nullptr || handles(args); }
  bool is_chosen(const Args& args) const {
    return can_run(args) && (suits == nullptr || suits(args));
  }
};

class OperationTable {
 public:
  explicit OperationTable(std::string backend) : backend_(std::move(backend)) {}
  // Starts from another backend's operations, which add() then replaces one by one.
  OperationTable(std::string backend, const OperationTable& base)
      : backend_(std::move(backend)), entries_(base.entries_) {}

  // Args names itself (`kName`) and its element type (`Element`).
  template <class Args, void (*function)(Context&, const Args&)>
  void add() {
    add<Args>({{"", function, nullptr, nullptr}});
  }
  // Of several variants the first that is chosen runs; the last must take whatever comes.
  template <class Args>
  void add(std::vector<Variant<Args>> variants) {
    entries_[typeid(Args)] =
        std::make_shared<const std::vector<Variant<Args>>>(std::move(variants));
  }

  template <class Args>
  bool has() const {
    return entries_.count(typeid(Args)) > 0;
  }

  // Error if the backend does not have the operation.
  template <class Args>
  const std::vector<Variant<Args>>& variants() const {
    const auto entry = entries_.find(typeid(Args));
    RINGGRAD_CHECK(entry != entries_.end(), "backend ", backend_, " has no ", Args::kName, " for ",
                   name_of(dtype_of<typename Args::Element>()));
    return *static_cast<const std::vector<Variant<Args>>*>(entry->second.get());
  }

  template <class Args>
  void run(Context& context, const Args& args) const {
    for (const Variant<Args>& variant : variants<Args>()) {
      if (variant.is_chosen(args)) {
        return variant.function(context, args);
      }
    }
    throw Error(concat("no variant of ", Args::kName, " takes these arguments"));
  }

  const std::string& backend() const { return backend_; }

 private:
  std::string backend_;
  std::unordered_map<std::type_index, std::shared_ptr<const void>> entries_;  // lists of variants
};

// Runs an operation on the replica's compute stream.
template <class Args>
void run(Context& context, const Args& args) {
  context.operations().run(context, args);
}

}  // namespace ringgrad::kernels
