// The reference: plain loops on one thread, sums in double. It is the oracle of every test and a
// device that a user can name, so that a whole network can be run on the definition of its
// operations.
#include "kernels/reference/backend.h"

#include "kernels/reference/operations.h"
#include "runtime/host_device.h"

namespace ringgrad::kernels::reference {
namespace {

const OperationTable& operations() {
  static const OperationTable table = [] {
    OperationTable t("reference");
    add_batch_norm(t);
    add_conv2d(t);
    add_convert(t);
    add_cross_entropy(t);
    add_elementwise(t);
    add_fill(t);
    add_hash(t);
    add_linear(t);
    add_pool2d(t);
    add_sgd(t);
    return t;
  }();
  return table;
}

}  // namespace

Backend backend() {
  return {"reference",
          "plain loops with double accumulation: the oracle of the tests",
          "",
          [](const std::string& argument) {
            RINGGRAD_CHECK(argument.empty() || argument == "0", "device reference:", argument,
                           ": there is one device, reference");
            return std::vector<std::string>{""};
          },
          [](const std::string&) { return make_host_device("reference", true); },
          &operations};
}

}  // namespace ringgrad::kernels::reference
