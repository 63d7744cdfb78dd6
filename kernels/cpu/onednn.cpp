#include "kernels/cpu/onednn.h"

#include <omp.h>

namespace ringgrad::kernels::cpu {

OneDnn& onednn(Context& context) {
  if (omp_get_max_threads() != context.threads()) {
    omp_set_num_threads(context.threads());
  }
  return context.state<OneDnn>();
}

std::string onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  return concat("oneDNN ", version->major, ".", version->minor, ".", version->patch);
}

}  // namespace ringgrad::kernels::cpu
