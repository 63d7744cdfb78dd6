// Learning rates as a function of progress, so that a resumed run needs nothing but its epoch and
// step.
#pragma once

#include <string>

namespace ringgrad {

struct Schedule {
  enum class Kind { constant, step, cosine };
  Kind kind = Kind::constant;
  int step_size = 1;         // step: epochs between two cuts
  double gamma = 0.1;        // step: factor of a cut
  double warmup_epochs = 0;  // linear from 0 to the base rate, step by step
  int epochs = 1;            // cosine: where it reaches 0

  // The rate for the step that begins after `step` of `steps_per_epoch` steps of `epoch`. As
  // StepLR's and CosineAnnealingLR's of PyTorch, it changes between epochs; warm-up changes with
  // each step.
  double rate(double base, int epoch, long step, long steps_per_epoch) const;
};

// "constant", "step:SIZE:GAMMA", "cosine"; Error for anything else.
Schedule parse_schedule(const std::string& text, int epochs);

}  // namespace ringgrad
