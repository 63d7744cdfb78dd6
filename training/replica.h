// One replica's part of a training, from its Context to the last checkpoint.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "data/loader.h"
#include "runtime/context.h"
#include "training/options.h"
#include "training/run_folder.h"

namespace ringgrad::training {

// What the replicas of a process share.
struct Data {
  std::unique_ptr<data::Dataset> train, test;
  std::unique_ptr<data::LoaderPool> workers;
};

// Every rank of `communicator` calls it, with the same options. `folder` is rank 0's, which alone
// prints and writes; its weights, and on resuming its whole state, go to all. Returns 0, or 128 + n
// when signal n ended the training, after a checkpoint.
int run_replica(const TrainOptions& options, const RunFolder& folder, const Data& data,
                std::unique_ptr<Context> context, comm::Communicator& communicator);

}  // namespace ringgrad::training
