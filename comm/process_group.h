// A communicator of ranks that are processes: on one host over shared memory, else over TCP.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/rendezvous.h"

namespace ringgrad::comm {

struct ProcessGroupOptions {
  std::string config;  // what must be equal on all ranks
  // auto: ring on one host; between hosts mpi where the job's starter offers it, else ring
  std::string backend = "auto";
  bool check_collectives = false;  // mpi: ranks compare what they call, as the ring does anyway
  std::string transport = "auto";  // shared, tcp; auto: shared where all ranks are on one host
  std::string interface;  // whose address the other hosts connect to; empty: as the store sees us
  std::chrono::milliseconds join_timeout = std::chrono::minutes(5);  // for all ranks to come
  std::chrono::milliseconds timeout =
      std::chrono::minutes(10);  // without progress, see Collectives
};

// Meets the other ranks. Error when the store refuses, its port is taken, or ranks are missing
// after join_timeout.
std::unique_ptr<Communicator> join_process_group(const Placement& place,
                                                 const ProcessGroupOptions& options);

// The same for the rank that the environment names (rendezvous.h); alone where it names none.
std::unique_ptr<Communicator> init_process_group(const ProcessGroupOptions& options = {},
                                                 const std::string& secret_file = "");

}  // namespace ringgrad::comm
