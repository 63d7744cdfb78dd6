// The training loop: epochs of a train and a test phase, metrics, checkpoints, best weights,
// resume.
#pragma once

#include "training/options.h"
#include "training/run_folder.h"

namespace ringgrad::training {

// Runs (or resumes) a training as the options say, with options.replicas replicas as threads of
// this process. Returns the process's exit code: 0, or 128 + n when signal n ended it (after a
// checkpoint). Throws Error for a user's mistake, before the first step wherever it can be known
// then.
int train(const TrainOptions& options);

}  // namespace ringgrad::training
