// What a checkpoint says beside weights and momentum, as text.
#pragma once

#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/transform.h"
#include "engine/checkpoint.h"
#include "training/options.h"
#include "training/phase.h"

namespace ringgrad::training {

// Where a run stands: enough to go on as if it had not stopped.
struct Position {
  int epoch = 0;             // complete epochs
  long step = 0;             // batches of the present one
  long total_steps = 0;      // batches since the start of the run
  long optimizer_steps = 0;  // of the optimizer, since then
  Totals totals;             // of the present epoch, this rank's
  double best_accuracy = -1;
  int world = 1;  // replicas in all
};

data::TransformKind resolved_transform(const TrainOptions& options);
// How the data of a run is opened; classes are those of synthetic data.
data::DatasetOptions dataset_options(const TrainOptions& options);

// The settings and class names, for the header of the weights: what evaluation needs.
StateText describe_run(const TrainOptions& options, const data::Dataset& dataset);
struct RunDescription {
  TrainOptions options;
  std::vector<std::string> classes;
};
// Error if the text is not what describe_run wrote.
RunDescription described_run(const StateText& text, const std::string& source);

StateText to_state(const Position& position, const TrainOptions& options, const Context& context);
Position position_from(const StateText& state);
std::string to_text(const Position& position);
Position position_from_text(const std::string& text);
// The settings that a checkpoint was made with.
TrainOptions options_from(const StateText& state);
// What would make a resumed run differ from an uninterrupted one, a sentence each.
std::vector<std::string> differences(const StateText& state, const TrainOptions& options,
                                     const Context& context);

}  // namespace ringgrad::training
