// Collectives of Open MPI, for clusters that trust it more than a ring of ours: it knows their
// networks. What it does with the data is its own affair; that its bits are the ring's is not
// promised.
#pragma once

#include <memory>
#include <string>

#include "comm/collectives.h"
#include "runtime/deadline.h"

namespace ringgrad::comm {

// Whether this program was built with it.
bool mpi_is_built();

// MPI of this process, from its beginning to the end of the object; it cannot begin again.
class MpiSession {
 public:
  MpiSession() = default;
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
  virtual ~MpiSession() = default;
  // Rank 0's text to all: how ranks on several hosts learn where to meet.
  virtual std::string broadcast_text(const std::string& text, const Deadline& deadline) = 0;
};

// `rank` of `size` must be what mpirun started. Error where the program was built without MPI, or
// MPI knows of other ranks.
std::shared_ptr<MpiSession> begin_mpi(int rank, int size);

// check: ranks compare what they call before each collective.
std::unique_ptr<Collectives> make_mpi_collectives(const std::shared_ptr<MpiSession>& session,
                                                  bool check,
                                                  const std::shared_ptr<Failure>& failure,
                                                  std::chrono::milliseconds timeout);

}  // namespace ringgrad::comm
