#include "engine/schedule.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "runtime/error.h"

namespace ringgrad {

double Schedule::rate(double base, int epoch, long step, long steps_per_epoch) const {
  constexpr double kPi = 3.14159265358979323846;
  double rate = base;
  switch (kind) {
    case Kind::constant:
      break;
    case Kind::step:
      rate = base * std::pow(gamma, epoch / step_size);
      break;
    case Kind::cosine:
      rate = base * 0.5 * (1 + std::cos(kPi * epoch / std::max(epochs, 1)));
      break;
  }
  if (warmup_epochs > 0) {
    const double done =
        epoch + static_cast<double>(step + 1) / static_cast<double>(steps_per_epoch);
    rate *= std::min(1.0, done / warmup_epochs);
  }
  return rate;
}

Schedule parse_schedule(const std::string& text, int epochs) {
  Schedule schedule;
  schedule.epochs = epochs;
  if (text == "constant") {
    return schedule;
  }
  if (text == "cosine") {
    schedule.kind = Schedule::Kind::cosine;
    return schedule;
  }
  char rest = 0;
  schedule.kind = Schedule::Kind::step;
  const int parsed =
      std::sscanf(text.c_str(), "step:%d:%lf%c", &schedule.step_size, &schedule.gamma, &rest);
  RINGGRAD_CHECK(parsed == 2 && schedule.step_size >= 1, "schedule '", text,
                 "': expected constant, cosine, or step:SIZE:GAMMA such as step:7:0.1");
  return schedule;
}

}  // namespace ringgrad
