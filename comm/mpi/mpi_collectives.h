// Collectives of Open MPI, for clusters that trust it more than a ring of ours: it knows their
// networks. What it does with the data is its own affair; that its bits are the ring's is not
// promised.
#pragma once

#include <memory>

#include "comm/collectives.h"

namespace ringgrad::comm {

// Whether this program was built with it.
bool mpi_is_built();

// MPI of this process begins here and ends with the object; it cannot begin again. `rank` of `size`
// must be what mpirun started. check: ranks compare what they call before each collective. Error
// where the program was built without MPI, or MPI knows of other ranks.
std::unique_ptr<Collectives> make_mpi_collectives(int rank, int size, bool check,
                                                  std::shared_ptr<Failure> failure,
                                                  std::chrono::milliseconds timeout);

}  // namespace ringgrad::comm
