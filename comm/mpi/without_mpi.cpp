#include "comm/mpi/mpi_collectives.h"
#include "runtime/error.h"

namespace ringgrad::comm {

bool mpi_is_built() {
  return false;
}

std::unique_ptr<Collectives> make_mpi_collectives(int, int, bool, std::shared_ptr<Failure>,
                                                  std::chrono::milliseconds) {
  throw Error(
      "--backend mpi: this program was built without MPI; install libopenmpi-dev and configure "
      "with -DRINGGRAD_MPI=on, or use --backend ring");
}

}  // namespace ringgrad::comm
