// A training: alone, as several replicas of this process, or as one rank of several processes.
#pragma once

#include <optional>

#include "comm/rendezvous.h"
#include "training/options.h"
#include "training/run_folder.h"

namespace ringgrad::training {

// Runs (or resumes) a training as the options say, with options.replicas replicas as threads of
// this process, or as the rank of several processes that `place` says. Returns the
// process's exit code: 0, or 128 + n when signal n ended it (after a checkpoint). Throws Error for
// a user's mistake, before the first step wherever it can be known then, and comm::PeerFailure when
// it was another rank that failed.
int train(const TrainOptions& options, const std::optional<comm::Placement>& place = {});

}  // namespace ringgrad::training
