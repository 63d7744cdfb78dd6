// Ranks for tests of collectives.
#pragma once

#include <functional>
#include <string>

#include "comm/communicator.h"

namespace ringgrad::test {

// What carries the data between ranks.
enum class Path { shared, messages };
std::string name_of(Path path);

// Runs fn(communicator) on n ranks that are threads of this process. The first exception of any
// rank is thrown here; a rank that hangs fails through the collectives' timeout.
void run_ranks(int n, const std::function<void(comm::Communicator&)>& fn, Path path = Path::shared,
               std::chrono::milliseconds timeout = std::chrono::seconds(20));

}  // namespace ringgrad::test
