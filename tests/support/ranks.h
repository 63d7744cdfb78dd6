// Ranks for tests of collectives.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "comm/communicator.h"
#include "comm/process_group.h"
#include "tests/support/process.h"

namespace ringgrad::test {

// What carries the data between ranks: memory that all reach, queues from neighbour to neighbour
// within the process, those that processes share, or queues that pass the stream in pieces of
// random length, as TCP does.
enum class Path { shared, messages, links, pieces };
std::string name_of(Path path);

// Whether the MPI backend can be tried: it is built, and there is an mpirun.
bool mpirun_is_there();
// With what mpirun wants to see before root may use it.
ProcessOptions for_mpirun();

// Waits so many seconds for ranks to come, and for progress. transport: as --transport has it.
comm::ProcessGroupOptions patient(int seconds, const std::string& transport = "auto");

// Runs fn(communicator) on n ranks that are threads of this process. The first exception of any
// rank is thrown here; a rank that hangs fails through the collectives' timeout.
void run_ranks(int n, const std::function<void(comm::Communicator&)>& fn, Path path = Path::shared,
               std::chrono::milliseconds timeout = std::chrono::seconds(20));

// Runs body(communicator) on n ranks that are processes: starts this test anew, n times, under
// `ringgrad launch` (mpirun, with the backend mpi), and within those runs calls body. Returns the
// launcher's outcome, which is not ok where a rank's expectations failed; nothing within a rank.
std::optional<Outcome> spawn_ranks(int n, const std::function<void(comm::Communicator&)>& body,
                                   const comm::ProcessGroupOptions& options = patient(20),
                                   const ProcessOptions& process = {});

}  // namespace ringgrad::test
