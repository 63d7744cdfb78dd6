// Who this process is within its job, as the environment of whatever started it says.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace ringgrad::comm {

struct Placement {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;       // ranks on this host
  std::string master_addr;  // of rank 0, or of who hosts the store
  int master_port = 0;
  bool store_is_hosted = false;  // by a launcher; else rank 0 hosts it
  bool offers_mpi = false;       // the job was started so that MPI finds its ranks
  std::string job;
  std::string secret;
  int generation = 0;   // restarts so far
  std::string starter;  // "the environment (RANK)", "Open MPI", "Slurm" …, for messages

  bool one_host() const { return local_size == size; }
};

// Reads a variable; null if it is not set.
using Environment = std::function<const char*(const char* name)>;
const char* process_environment(const char* name);

// RINGGRAD_SECRET, or the content of the file; empty if there is none.
std::string secret_from(const Environment& environment, const std::string& secret_file);
// What to do about a missing one.
extern const char* const kSecretNeeded;

// Error where ranks on several hosts have no secret, or do not know where rank 0 is.
void check_can_meet(const Placement& place);

// The placement of a process that something started as one rank of several:
//
//   RANK, WORLD_SIZE             `ringgrad launch`, torchrun, or by hand (env://), with LOCAL_RANK,
//                                LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT
//   OMPI_COMM_WORLD_RANK         mpirun of Open MPI
//   PMI_RANK                     mpiexec of MPICH and its relatives
//   SLURM_PROCID                 srun, within a step
//
// in this order; nothing if there is none of them. torchrun's agent listens on MASTER_PORT itself:
// under TORCHELASTIC_USE_AGENT_STORE the store takes the next port, or RINGGRAD_STORE_PORT. The
// secret is RINGGRAD_SECRET, or the content of `secret_file`; ranks on several hosts need one,
// unless MPI can tell them one. Error for an incomplete or contradictory environment.
std::optional<Placement> placement_from(const Environment& environment,
                                        const std::string& secret_file);

}  // namespace ringgrad::comm
