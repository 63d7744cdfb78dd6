#include "training/checkpoint_state.h"

#include <nlohmann/json.hpp>

#include "runtime/cpu_features.h"
#include "runtime/json_text.h"

namespace ringgrad::training {
namespace {

using nlohmann::json;

constexpr const char* kOptions = "ringgrad.options";
constexpr const char* kClasses = "ringgrad.classes";
constexpr const char* kPosition = "ringgrad.position";
constexpr const char* kMachine = "ringgrad.machine";

// What decides the last bits beside the settings.
json machine_of(const Context& context) {
  return {{"backend", context.operations().backend()},
          {"threads", context.threads()},
          {"instruction set", cpu_features().best_name}};
}

json parsed(const StateText& state, const char* key) {
  const auto found = state.find(key);
  RINGGRAD_CHECK(found != state.end(), "the checkpoint has no entry ", key);
  json value = json::parse(found->second, nullptr, /*allow_exceptions=*/false);
  RINGGRAD_CHECK(!value.is_discarded(), "the checkpoint's entry ", key, " is not JSON");
  return value;
}

template <class T>
T field(const json& object, const char* key) {
  try {
    return object.at(key).get<T>();
  } catch (const json::exception&) {
    throw Error(concat("the checkpoint's position has no usable '", key, "'"));
  }
}

Position position_of(const json& p) {
  Position position;
  position.epoch = field<int>(p, "epoch");
  position.step = field<long>(p, "step");
  position.total_steps = field<long>(p, "total_steps");
  position.optimizer_steps = field<long>(p, "optimizer_steps");
  position.totals = {field<double>(p, "loss_sum"), field<std::int64_t>(p, "correct"),
                     field<std::int64_t>(p, "samples")};
  position.best_accuracy = field<double>(p, "best_accuracy");
  position.world = field<int>(p, "world");
  return position;
}

}  // namespace

data::TransformKind resolved_transform(const TrainOptions& options) {
  if (options.transform != "auto") {
    return data::parse_transform(options.transform);
  }
  return data::parse_dataset_spec(options.data).kind == "folder" ? data::TransformKind::imagenet
                                                                 : data::TransformKind::to_tensor;
}

data::DatasetOptions dataset_options(const TrainOptions& options) {
  data::DatasetOptions dataset;
  dataset.seed = options.seed;
  dataset.samples = options.samples;
  dataset.classes = options.num_classes > 0 ? options.num_classes : 10;
  dataset.allow_empty_classes = options.allow_empty_classes;
  dataset.exif_rotation = options.exif_rotation;
  dataset.skip_bad = options.skip_bad;
  return dataset;
}

StateText describe_run(const TrainOptions& options, const data::Dataset& dataset) {
  return {{kOptions, json_text(to_json(options))}, {kClasses, json_text(json(dataset.classes()))}};
}

RunDescription described_run(const StateText& text, const std::string& source) {
  RINGGRAD_CHECK(text.count(kOptions) > 0 && text.count(kClasses) > 0, source,
                 ": the file does not say which network it holds; it was not written by ringgrad "
                 "train");
  RunDescription run;
  merge_json(run.options, parsed(text, kOptions));
  run.classes = parsed(text, kClasses).get<std::vector<std::string>>();
  return run;
}

std::string to_text(const Position& position) {
  return json_text(json{{"epoch", position.epoch},
                        {"step", position.step},
                        {"total_steps", position.total_steps},
                        {"optimizer_steps", position.optimizer_steps},
                        {"loss_sum", position.totals.loss_sum},
                        {"correct", position.totals.correct},
                        {"samples", position.totals.samples},
                        {"best_accuracy", position.best_accuracy},
                        {"world", position.world}});
}

Position position_from_text(const std::string& text) {
  return position_of(json::parse(text, nullptr, /*allow_exceptions=*/false));
}

StateText to_state(const Position& position, const TrainOptions& options, const Context& context) {
  return {{kPosition, to_text(position)},
          {kOptions, json_text(to_json(options))},
          {kMachine, json_text(machine_of(context))}};
}

Position position_from(const StateText& state) {
  return position_of(parsed(state, kPosition));
}

TrainOptions options_from(const StateText& state) {
  TrainOptions options;
  merge_json(options, parsed(state, kOptions));
  return options;
}

std::vector<std::string> differences(const StateText& state, const TrainOptions& options,
                                     const Context& context) {
  std::vector<std::string> found;
  const auto compare = [&](const json& before, const json& now, const char* what) {
    for (const auto& [key, value] : now.items()) {
      if (before.contains(key) && json_text(before.at(key)) != json_text(value)) {
        found.push_back(concat(what, key, " was ", json_text(before.at(key)), " and is ",
                               json_text(value), ": results differ from an uninterrupted run"));
      }
    }
  };
  json before = parsed(state, kOptions);
  json now = to_json(options);
  for (const char* harmless :
       {"workers", "checkpoint-every", "save-every", "init", "device", "threads"}) {
    now.erase(harmless);
  }
  if (!options.schedule.empty() && options.schedule != "cosine") {
    now.erase("epochs");
  }
  compare(before, now, "--");
  compare(parsed(state, kMachine), machine_of(context), "");
  return found;
}

}  // namespace ringgrad::training
