#include "comm/mpi/mpi_collectives.h"
#include "runtime/error.h"

namespace ringgrad::comm {

bool mpi_is_built() {
  return false;
}

std::shared_ptr<MpiSession> begin_mpi(int, int) {
  throw Error(
      "--backend mpi: this program was built without MPI; install libopenmpi-dev and configure "
      "with -DRINGGRAD_MPI=on, or use --backend ring");
}

std::unique_ptr<Collectives> make_mpi_collectives(const std::shared_ptr<MpiSession>&, bool,
                                                  const std::shared_ptr<Failure>&,
                                                  std::chrono::milliseconds) {
  return nullptr;  // there is no session to call it with
}

}  // namespace ringgrad::comm
