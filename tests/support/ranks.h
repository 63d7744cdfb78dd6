// Ranks for tests of collectives.
#pragma once

#include <functional>

#include "comm/communicator.h"

namespace ringgrad::test {

// Runs fn(communicator) on n ranks that are threads of this process, over a ring in memory. The
// first exception of any rank is thrown here; a rank that hangs fails through the transport's
// timeout (20 s).
void run_ranks(int n, const std::function<void(comm::Communicator&)>& fn);

}  // namespace ringgrad::test
