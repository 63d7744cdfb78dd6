#include "kernels/backends.h"

#include "kernels/cpu/backend.h"
#include "kernels/cuda/backend.h"
#include "kernels/reference/backend.h"
#include "runtime/cpu_features.h"
#include "runtime/error.h"

namespace ringgrad::kernels {

const std::vector<Backend>& backends() {
  static const std::vector<Backend> list = {
      cpu::backend(),
      reference::backend(),
      emulated::backend(),
#ifdef RINGGRAD_HAVE_CUDA
      cuda::backend(),
#endif
  };
  return list;
}

namespace {

struct Named {
  const Backend& backend;
  std::vector<std::string> devices;  // at least one
};

Named named(const std::string& device) {
  const std::size_t colon = device.find(':');
  const std::string name = device.substr(0, colon);
  const std::string argument = colon == std::string::npos ? "" : device.substr(colon + 1);
  std::string known;
  for (const Backend& backend : backends()) {
    if (backend.name == name) {
      return {backend, backend.list(argument)};
    }
    known += (known.empty() ? "" : ", ") + backend.name;
  }
  RINGGRAD_CHECK(name != "cuda",
                 "device cuda: this program was built without CUDA; configure with "
                 "-DRINGGRAD_CUDA=on on a machine with the toolkit, or use one of: ",
                 known);
  throw Error(concat("device ", device, " is unknown; expected one of: ", known));
}

}  // namespace

int device_count(const std::string& device) {
  return static_cast<int>(named(device).devices.size());
}

std::unique_ptr<Context> open_context(const std::string& device, int threads, int index) {
  const auto [backend, devices] = named(device);
  return std::make_unique<Context>(
      backend.open(devices[static_cast<std::size_t>(index) % devices.size()]), backend.operations(),
      threads > 0 ? threads : cpu_features().cores);
}

std::vector<std::unique_ptr<Context>> open_contexts(const std::string& device, int count,
                                                    int threads) {
  std::vector<std::unique_ptr<Context>> contexts;
  for (int index = 0; index < count; ++index) {
    contexts.push_back(open_context(device, threads, index));
  }
  return contexts;
}

}  // namespace ringgrad::kernels
