// The CPU backend: oneDNN for convolutions and matrix products, our own vectorised loops for the
// rest. What is neither hot nor float (loss, fills, digests, everything in double) is the
// reference's.
#include "kernels/cpu/backend.h"

#include "kernels/cpu/onednn.h"
#include "kernels/cpu/operations.h"
#include "kernels/reference/backend.h"
#include "runtime/host_device.h"

namespace ringgrad::kernels::cpu {
namespace {

const OperationTable& operations() {
  static const OperationTable table = [] {
    OperationTable t("cpu", reference::backend().operations());
    add_batch_norm(t);
    add_conv2d(t);
    add_convert(t);
    add_elementwise(t);
    add_linear(t);
    add_pool2d(t);
    add_sgd(t);
    return t;
  }();
  return table;
}

}  // namespace

Backend backend() {
  return {"cpu",
          "oneDNN and vectorised loops on all cores",
          onednn_version(),
          [](const std::string& argument) {
            RINGGRAD_CHECK(argument.empty() || argument == "0", "device cpu:", argument,
                           ": there is one device, cpu");
            return std::vector<std::string>{""};
          },
          [](const std::string&) { return make_host_device("cpu", false); },
          &operations};
}

}  // namespace ringgrad::kernels::cpu
