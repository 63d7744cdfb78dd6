// The two phases of an epoch over one replica's share of the data.
#pragma once

#include <functional>

#include "comm/communicator.h"
#include "data/loader.h"
#include "engine/functions.h"
#include "engine/module.h"

namespace ringgrad::training {

// Sums over samples, so that means are over samples and not over batches.
struct Totals {
  double loss_sum = 0;
  std::int64_t correct = 0;
  std::int64_t samples = 0;

  double loss() const { return samples > 0 ? loss_sum / static_cast<double>(samples) : 0.0; }
  double accuracy() const {
    return samples > 0 ? static_cast<double>(correct) / static_cast<double>(samples) : 0.0;
  }
  void add(double batch_loss, std::int64_t batch_correct, std::int64_t n) {
    loss_sum += batch_loss * static_cast<double>(n);
    correct += batch_correct;
    samples += n;
  }
};

// A batch as the network reads it.
struct DeviceBatch {
  Tensor images;  // (N,H,W,3) bytes
  Tensor labels;  // (N) i32
};

// On a device that the host shares, the batch's own memory; else a copy on the copy stream, which
// what comes on the compute stream waits for.
DeviceBatch to_device(Context& context, const std::shared_ptr<data::Batch>& batch);

Normalization normalization_of(data::TransformKind kind);

// Totals over all ranks.
Totals reduced(const Totals& mine, comm::Communicator& communicator, Context& context);

// Runs the model, in evaluation mode and without recording, over what the loader gives; `tick` is
// called after each batch with the totals so far and ends it by returning false. The model's mode
// is restored.
Totals evaluate(Context& context, Module& model, data::DataLoader& loader,
                const Normalization& normalization,
                const std::function<bool(const Totals&)>& tick = {});

}  // namespace ringgrad::training
