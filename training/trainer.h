// A training: alone, as several replicas of this process, or as one rank of several processes.
#pragma once

#include "training/options.h"
#include "training/run_folder.h"

namespace ringgrad::training {

// Runs (or resumes) a training as the options say, with options.replicas replicas as threads of
// this process, or as the rank that the environment names (comm/rendezvous.h). Returns the
// process's exit code: 0, or 128 + n when signal n ended it (after a checkpoint). Throws Error for
// a user's mistake, before the first step wherever it can be known then, and comm::PeerFailure when
// it was another rank that failed.
int train(const TrainOptions& options);

}  // namespace ringgrad::training
