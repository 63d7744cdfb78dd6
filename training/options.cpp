#include "training/options.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "engine/schedule.h"
#include "runtime/error.h"

namespace ringgrad::training {
namespace {

using nlohmann::json;

// Whether a JSON value is one of the field's type, without any conversion.
bool fits(const json& value, const std::string&) {
  return value.is_string();
}
bool fits(const json& value, bool) {
  return value.is_boolean();
}
bool fits(const json& value, double) {
  return value.is_number();
}
bool fits(const json& value, std::uint64_t) {
  return value.is_number_unsigned();
}
bool fits(const json& value, std::int64_t) {
  return value.is_number_integer() &&
         (!value.is_number_unsigned() ||
          value.get<std::uint64_t>() <=
              static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
}
bool fits(const json& value, int) {
  return fits(value, std::int64_t{}) &&
         value.get<std::int64_t>() >= std::numeric_limits<int>::min() &&
         value.get<std::int64_t>() <= std::numeric_limits<int>::max();
}

const char* expectation(const std::string&) {
  return "a text";
}
const char* expectation(bool) {
  return "true or false";
}
const char* expectation(double) {
  return "a number";
}
const char* expectation(std::uint64_t) {
  return "a whole number from 0";
}
const char* expectation(std::int64_t) {
  return "a whole number";
}
const char* expectation(int) {
  return "a whole number";
}

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
  f("global-batch-size", o.global_batch_size);
  f("accumulate", o.accumulate);
  f("scale-lr", o.scale_lr);
  f("compression", o.compression);
  f("find-unused-parameters", o.find_unused_parameters);
  f("sync-bn", o.sync_bn);
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
  f("save-every", o.save_every);
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
    RINGGRAD_CHECK(fits(*found, field), "setting ", key, " is ", found->dump(), "; expected ",
                   expectation(field));
    found->get_to(field);
  });
  if (known < settings.size()) {
    const json mine = to_json(options);
    for (const auto& [key, value] : settings.items()) {
      RINGGRAD_CHECK(mine.contains(key), "'", key, "' is not a setting of a training run");
    }
  }
}

std::string pack(const json& settings) {
  const std::vector<std::uint8_t> bytes = json::to_cbor(settings);
  return {bytes.begin(), bytes.end()};
}

json unpack(const std::string& packed) {
  return packed.empty() ? json::object() : json::from_cbor(packed);
}

void check(const TrainOptions& o) {
  RINGGRAD_CHECK(!o.data.empty(),
                 "--data is missing: idx:DIR, cifar10:DIR, cifar100:DIR, folder:DIR "
                 "or synthetic:HxW");
  RINGGRAD_CHECK(o.epochs >= 1, "--epochs ", o.epochs, ": expected 1 or more");
  RINGGRAD_CHECK(o.batch_size >= 1 && o.batch_size <= 1000000, "--batch-size ", o.batch_size,
                 ": expected 1 to 1000000");
  RINGGRAD_CHECK(o.global_batch_size >= 0 && o.global_batch_size <= 1000000, "--global-batch-size ",
                 o.global_batch_size, ": expected 1 to 1000000");
  RINGGRAD_CHECK(o.accumulate >= 1 && o.accumulate <= 1000000, "--accumulate ", o.accumulate,
                 ": expected 1 batch or more");
  RINGGRAD_CHECK(o.compression == "none" || o.compression == "fp16", "--compression ",
                 o.compression, ": expected none or fp16");
  RINGGRAD_CHECK(o.save_every >= 0, "--save-every ", o.save_every, ": expected 1 step or more");
  RINGGRAD_CHECK(o.samples >= 1 && o.samples <= 1000000000, "--samples ", o.samples,
                 ": expected 1 to 1000000000");
  RINGGRAD_CHECK(o.label_smoothing >= 0 && o.label_smoothing <= 1, "--label-smoothing ",
                 o.label_smoothing, ": expected 0 to 1");
  RINGGRAD_CHECK(o.lr >= 0 && o.lr < 1e6, "--lr ", o.lr, ": expected 0 or more");
  RINGGRAD_CHECK(o.momentum >= 0 && o.momentum <= 1, "--momentum ", o.momentum,
                 ": expected 0 to 1");
  RINGGRAD_CHECK(o.weight_decay >= 0, "--weight-decay ", o.weight_decay, ": expected 0 or more");
  RINGGRAD_CHECK(o.warmup >= 0, "--warmup ", o.warmup, ": expected 0 epochs or more");
  RINGGRAD_CHECK(o.num_classes >= 0, "--num-classes ", o.num_classes, ": expected 1 or more");
  RINGGRAD_CHECK(o.replicas >= 0 && o.replicas <= 64, "--replicas ", o.replicas,
                 ": expected 1 to 64");
  RINGGRAD_CHECK(o.threads >= 0 && o.threads <= 1024, "--threads ", o.threads,
                 ": expected 0 (all cores) to 1024");
  RINGGRAD_CHECK(o.workers >= -1 && o.workers <= 1024, "--workers ", o.workers,
                 ": expected -1 (by the cores) to 1024");
  RINGGRAD_CHECK(o.checkpoint_every >= 1, "--checkpoint-every ", o.checkpoint_every,
                 ": expected 1 epoch or more");
  RINGGRAD_CHECK(
      o.backend == "auto" || o.backend == "ring" || o.backend == "mpi" || o.backend == "nccl",
      "--backend ", o.backend, ": expected auto, ring, mpi or nccl");
  RINGGRAD_CHECK(o.transport == "auto" || o.transport == "shared" || o.transport == "tcp",
                 "--transport ", o.transport, ": expected auto, shared or tcp");
  RINGGRAD_CHECK(o.comm_timeout > 0 && o.comm_timeout < 1e6, "--comm-timeout ", o.comm_timeout,
                 ": expected seconds, more than 0");
  parse_schedule(o.schedule, o.epochs);
}

std::chrono::milliseconds timeout_of(const TrainOptions& options) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(options.comm_timeout * 1000));
}

}  // namespace ringgrad::training
