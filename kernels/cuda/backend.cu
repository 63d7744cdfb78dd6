#include "kernels/cuda/backend.h"

#include "kernels/cuda/operations.h"
#include "runtime/cuda/device.h"

namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE {
namespace {

const OperationTable& operations() {
#ifdef RINGGRAD_EMULATED
  static OperationTable table("emulated");
#else
  static OperationTable table("cuda");
#endif
  static const bool filled = [] {
    add_batch_norm(table);
    add_conv2d(table);
    add_convert(table);
    add_cross_entropy(table);
    add_elementwise(table);
    add_fill(table);
    add_hash(table);
    add_linear(table);
    add_pool2d(table);
    add_sgd(table);
    return true;
  }();
  (void)filled;
  return table;
}

int parsed_index(const std::string& text) {
  RINGGRAD_CHECK(
      !text.empty() && text.size() < 5 && text.find_first_not_of("0123456789") == std::string::npos,
      "device index '", text, "': expected a number");
  return std::stoi(text);
}

}  // namespace

#ifdef RINGGRAD_EMULATED

// An argument of open is "PROFILE:INDEX".
Backend backend() {
  return {"emulated",
          "the CUDA kernels on an emulated GPU (slow: for tests and teaching)",
          "",
          [](const std::string& profile) {
            ringgrad::emulated::set_profile(profile);
            std::vector<std::string> devices;
            for (int i = 0; i < ringgrad::emulated::device_count(); ++i) {
              devices.push_back(concat(profile, ":", i));
            }
            return devices;
          },
          [](const std::string& argument) {
            return ringgrad::emulated::make_device(
                parsed_index(argument.substr(argument.rfind(':') + 1)));
          },
          &operations};
}

#else

Backend backend() {
  return {"cuda",
          "hand-written CUDA kernels on an NVIDIA GPU",
          concat("CUDA ", CUDART_VERSION / 1000, ".", CUDART_VERSION % 1000 / 10),
          [](const std::string& argument) {
            const int count = ringgrad::cuda::device_count();
            RINGGRAD_CHECK(
                count > 0,
                "device cuda: no GPU is visible to this process (is the driver installed, "
                "and CUDA_VISIBLE_DEVICES right?); without one use cpu or emulated");
            std::vector<std::string> devices;
            if (!argument.empty()) {
              devices.push_back(argument);
            }
            for (int i = 0; argument.empty() && i < count; ++i) {
              devices.push_back(std::to_string(i));
            }
            return devices;
          },
          [](const std::string& argument) {
            return ringgrad::cuda::make_device(parsed_index(argument));
          },
          &operations};
}

#endif

}  // namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE
