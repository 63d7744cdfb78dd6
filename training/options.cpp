#include "training/options.h"

#include <nlohmann/json.hpp>

#include "engine/schedule.h"
#include "runtime/error.h"

namespace ringgrad::training {
namespace {

using nlohmann::json;

// Calls f(key, field) for every setting: the one list of them.
template <class Options, class F>
void for_each_setting(Options& o, F&& f) {
  f("model", o.model);
  f("data", o.data);
  f("transform", o.transform);
  f("num-classes", o.num_classes);
  f("cifar-stem", o.cifar_stem);
  f("epochs", o.epochs);
  f("batch-size", o.batch_size);
  f("lr", o.lr);
  f("momentum", o.momentum);
  f("weight-decay", o.weight_decay);
  f("nesterov", o.nesterov);
  f("label-smoothing", o.label_smoothing);
  f("schedule", o.schedule);
  f("warmup", o.warmup);
  f("seed", o.seed);
  f("samples", o.samples);
  f("drop-last", o.drop_last);
  f("skip-bad", o.skip_bad);
  f("exif-rotation", o.exif_rotation);
  f("allow-empty-classes", o.allow_empty_classes);
  f("init", o.init);
  f("device", o.device);
  f("replicas", o.replicas);
  f("threads", o.threads);
  f("workers", o.workers);
  f("checkpoint-every", o.checkpoint_every);
}

}  // namespace

json to_json(const TrainOptions& options) {
  json out = json::object();
  for_each_setting(options, [&](const char* key, const auto& field) { out[key] = field; });
  return out;
}

void merge_json(TrainOptions& options, const json& settings) {
  std::size_t known = 0;
  for_each_setting(options, [&](const char* key, auto& field) {
    const auto found = settings.find(key);
    if (found == settings.end()) {
      return;
    }
    ++known;
    try {
      found->get_to(field);
    } catch (const json::exception&) {
      throw Error(concat("setting ", key, " is ", found->dump(), ", which is of the wrong type"));
    }
  });
  if (known < settings.size()) {
    const json mine = to_json(options);
    for (const auto& [key, value] : settings.items()) {
      RINGGRAD_CHECK(mine.contains(key), "'", key, "' is not a setting of a training run");
    }
  }
}

void check(const TrainOptions& o) {
  RINGGRAD_CHECK(!o.data.empty(),
                 "--data is missing: idx:DIR, cifar10:DIR, cifar100:DIR, folder:DIR "
                 "or synthetic:HxW");
  RINGGRAD_CHECK(o.epochs >= 1, "--epochs ", o.epochs, ": expected 1 or more");
  RINGGRAD_CHECK(o.batch_size >= 1, "--batch-size ", o.batch_size, ": expected 1 or more");
  RINGGRAD_CHECK(o.lr >= 0 && o.lr < 1e6, "--lr ", o.lr, ": expected 0 or more");
  RINGGRAD_CHECK(o.momentum >= 0 && o.momentum <= 1, "--momentum ", o.momentum,
                 ": expected 0 to 1");
  RINGGRAD_CHECK(o.weight_decay >= 0, "--weight-decay ", o.weight_decay, ": expected 0 or more");
  RINGGRAD_CHECK(o.warmup >= 0, "--warmup ", o.warmup, ": expected 0 epochs or more");
  RINGGRAD_CHECK(o.num_classes >= 0, "--num-classes ", o.num_classes, ": expected 1 or more");
  RINGGRAD_CHECK(o.replicas >= 1 && o.replicas <= 64, "--replicas ", o.replicas,
                 ": expected 1 to 64");
  RINGGRAD_CHECK(o.checkpoint_every >= 1, "--checkpoint-every ", o.checkpoint_every,
                 ": expected 1 epoch or more");
  parse_schedule(o.schedule, o.epochs);
}

}  // namespace ringgrad::training
