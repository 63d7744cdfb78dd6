#include "training/replica.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <nlohmann/json.hpp>

#include "comm/ddp.h"
#include "data/sampler.h"
#include "engine/checkpoint.h"
#include "engine/schedule.h"
#include "models/registry.h"
#include "runtime/file.h"
#include "runtime/json_text.h"
#include "training/checkpoint_state.h"
#include "training/phase.h"
#include "training/reporter.h"
#include "training/signals.h"

namespace ringgrad::training {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

constexpr long kReportEvery = 100;  // steps

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// "Train Epoch: 0 [6400/50000 (13%)]<tab>Loss: 0.512345", as the CIFAR tutorial prints it.
std::string tutorial_line(int epoch, std::int64_t seen, std::int64_t of, double percent,
                          double loss) {
  char text[160];
  std::snprintf(text, sizeof text, "Train Epoch: %d [%lld/%lld (%.0f%%)]\tLoss: %.6f", epoch,
                static_cast<long long>(seen), static_cast<long long>(of), percent, loss);
  return text;
}

std::int64_t batch_of_each(const TrainOptions& options, int replicas) {
  if (options.global_batch_size == 0) {
    return options.batch_size;
  }
  RINGGRAD_CHECK(options.global_batch_size % replicas == 0, "--global-batch-size ",
                 options.global_batch_size, " does not split into ", replicas, " replicas");
  return options.global_batch_size / replicas;
}

class Replica {
 public:
  Replica(const TrainOptions& options, const RunFolder& folder, const Data& data,
          std::unique_ptr<Context> context, comm::Communicator& communicator)
      : options_(options),
        folder_(folder),
        data_(data),
        context_(std::move(context)),
        communicator_(communicator),
        batch_(batch_of_each(options, communicator.size())),
        base_lr_(options.scale_lr ? options.lr * communicator.size() : options.lr),
        transform_(resolved_transform(options)),
        normalization_(normalization_of(transform_)),
        model_(make_model(options.model, {classes(), options.cifar_stem})),
        reporter_(folder, communicator.rank() != 0) {
    model_->to(*context_, options.seed);
    if (!options.init.empty() && !options.resume) {
      load_initial_weights();
    }
    if (options.sync_bn) {
      comm::synchronize_batch_norm(*model_, communicator);
    }
    parameters_ = std::make_unique<FlatParameters>(*context_, *model_,
                                                   comm::shared_gradients(*context_, communicator));
    optimizer_ = std::make_unique<SGD>(
        *parameters_,
        SgdOptions{options.lr, options.momentum, options.weight_decay, options.nesterov});
    schedule_ = parse_schedule(options.schedule, options.epochs);
    schedule_.warmup_epochs = options.warmup;
  }

  int run() {
    try {
      return run_epochs();
    } catch (const std::exception& error) {
      reporter_.log_line(concat("failed: ", error.what()));
      throw;
    }
  }

 private:
  int run_epochs() {
    if (communicator_.rank() == 0) {
      prepare_folder();
    }
    if (options_.resume) {
      resume();
    }
    comm::DistributedDataParallel::Options ddp;
    ddp.fp16_compression = options_.compression == "fp16";
    ddp.find_unused_parameters = options_.find_unused_parameters;
    ddp_ = std::make_unique<comm::DistributedDataParallel>(*parameters_, communicator_, ddp);
    ddp_->broadcast_buffers(*model_);
    announce();
    while (position_.epoch < options_.epochs) {
      if (!train_epoch() || !finish_epoch()) {
        save();
        reporter_.line(concat("stopped by signal ", stopped_by_, " in epoch ", position_.epoch,
                              " after ", position_.step,
                              " steps; continue with: ringgrad train --resume --out ",
                              folder_.path().string()));
        return 128 + stopped_by_;
      }
    }
    reporter_.line(concat("done: best test accuracy ", best_text(), ", weights in ",
                          folder_.best_weights().string()));
    return 0;
  }

  Index classes() const {
    const auto have = static_cast<Index>(data_.train->classes().size());
    if (options_.num_classes == 0) {
      return have;
    }
    RINGGRAD_CHECK(options_.num_classes >= have, "--num-classes ", options_.num_classes,
                   ": the data has ", have, " classes");
    return options_.num_classes;
  }

  LoadOptions init_options() const {
    // With --num-classes the last layer may differ from the file's and then starts afresh.
    return options_.num_classes > 0 ? LoadOptions{{"fc", "fc2"}} : LoadOptions{};
  }

  void load_initial_weights() {
    try {
      for (const std::string& note : load_weights(*model_, options_.init, init_options())) {
        reporter_.line(options_.init + ": " + note);
      }
    } catch (const Error& error) {
      // The last layer's shape is the usual reason, and has an option of its own.
      const std::string reason = error.what();
      const bool last_layer = reason.find("tensor fc") != std::string::npos;
      RINGGRAD_CHECK(!last_layer || options_.num_classes > 0, reason, " (--num-classes ", classes(),
                     " starts the last layer afresh)");
      throw;
    }
  }

  data::DataLoader::Options loader_options(bool training) const {
    data::DataLoader::Options loader;
    loader.batch_size = batch_;
    loader.pool = data_.workers.get();
    loader.drop_last = training && options_.drop_last;
    loader.seed = options_.seed;
    return loader;
  }

  data::DistributedSampler sampler() const {
    data::DistributedSampler::Options options;
    options.rank = communicator_.rank();
    options.world = communicator_.size();
    options.seed = options_.seed;
    data::DistributedSampler sampler(data_.train->size(), options);
    sampler.set_epoch(position_.epoch);
    return sampler;
  }

  void prepare_folder() {
    // Weights and momentum, three checkpoints while the newest is written, and the best weights.
    const auto weights = static_cast<std::size_t>(model_->parameter_count()) * sizeof(float);
    folder_.prepare(7 * weights + (std::size_t{1} << 20));
  }

  void announce() {
    const auto& train = *data_.train;
    reporter_.line(
        concat(options_.model, ", ", model_->parameter_count(), " parameters, on ",
               context_->device().name(), " (", context_->device().description(), "), ",
               counted(context_->threads(), "thread"),
               communicator_.size() > 1
                   ? concat(" each, ", communicator_.size(), " replicas (",
                            communicator_.description(), "), batches of ",
                            batch_ * communicator_.size() * options_.accumulate, " in all")
                   : ""));
    reporter_.line(concat(options_.data, ": ", train.size(), " training and ", data_.test->size(),
                          " test images, ", train.classes().size(), " classes; transform ",
                          data::name_of(transform_), "; run folder ", folder_.path().string()));
    for (const data::Dataset* dataset : {data_.train.get(), data_.test.get()}) {
      for (const std::string& warning : dataset->warnings()) {
        reporter_.line("warning: " + warning);
      }
    }
  }

  // False when a signal ended it; position_ says where.
  bool train_epoch() {
    std::vector<std::int64_t> indices = sampler().indices();
    const auto shard = static_cast<std::int64_t>(indices.size());
    const std::int64_t begin = std::min(position_.step * batch_, shard);
    indices.erase(indices.begin(), indices.begin() + begin);
    data::DataLoader loader(*context_, *data_.train, {transform_, true}, loader_options(true),
                            position_.epoch, std::move(indices));
    const long steps = static_cast<long>(position_.step + loader.batches());
    RINGGRAD_CHECK(steps > 0, "--drop-last: ", shard, " images do not fill one batch of ", batch_);
    start_ = Clock::now();
    samples_at_start_ = position_.totals.samples;
    while (const std::shared_ptr<data::Batch> batch = loader.next()) {
      const bool stepped = closes_window(steps);
      const double loss = step(batch, shard, steps);
      if (position_.step % kReportEvery == 0) {
        report_step(loss, shard, steps);
      }
      ++position_.step;
      ++position_.total_steps;
      reporter_.progress(progress("train", position_.totals,
                                  std::min(position_.step * batch_, shard),
                                  shard * communicator_.size()));
      if (!stepped) {
        continue;
      }
      if (must_stop()) {
        return false;
      }
      if (options_.save_every > 0 && position_.optimizer_steps % options_.save_every == 0) {
        save();
      }
    }
    return true;
  }

  // Batches of one step of the optimizer form a window; the epoch's last one may be short.
  bool opens_window() const { return position_.step % options_.accumulate == 0; }
  bool closes_window(long steps_per_epoch) const {
    return (position_.step + 1) % options_.accumulate == 0 || position_.step + 1 == steps_per_epoch;
  }
  // This rank's samples in the present window, of the epoch's `samples`.
  std::int64_t window_samples(std::int64_t samples) const {
    const std::int64_t window = batch_ * options_.accumulate;
    const std::int64_t begin = position_.step / options_.accumulate * window;
    return std::min(samples, begin + window) - begin;
  }

  double step(const std::shared_ptr<data::Batch>& batch, std::int64_t shard, long steps_per_epoch) {
    const DeviceBatch on_device = to_device(*context_, batch);
    const Tensor logits = (*model_)(image_to_float(on_device.images, normalization_));
    const Tensor loss = cross_entropy(logits, on_device.labels, {options_.label_smoothing, -100});
    if (opens_window()) {
      optimizer_->set_lr(
          schedule_.rate(base_lr_, position_.epoch, position_.step, steps_per_epoch));
      optimizer_->clear_gradients();
    }
    const bool closes = closes_window(steps_per_epoch);
    const std::int64_t used = options_.drop_last ? steps_per_epoch * batch_ : shard;
    ddp_->set_sync(closes);
    backward(loss, static_cast<double>(batch->n) / static_cast<double>(window_samples(used)));
    if (closes) {
      ddp_->finish();
      optimizer_->step();
      ++position_.optimizer_steps;
    }
    const Tensor correct = correct_in_top_k(logits, on_device.labels, 1);
    const double value = loss.item();
    context_->check_status();
    RINGGRAD_CHECK(std::isfinite(value), "the loss became ", value, " in epoch ", position_.epoch,
                   ", step ", position_.step, " (learning rate ", optimizer_->lr(),
                   "): the training diverged; try a smaller --lr or a --warmup");
    position_.totals.add(value, correct.to_host<std::int64_t>().front(), batch->n);
    return value;
  }

  // Replicas must agree on the step after which they stop, and on the signal: not all of them may
  // have got it.
  bool must_stop() {
    stopped_by_ = stop_signal();
    if (communicator_.size() > 1) {
      const Tensor signal = Tensor::from_host<std::int64_t>(*context_, {1}, {stopped_by_});
      communicator_
          .all_reduce(signal.raw(), 1, DType::i64, comm::ReduceOp::max, context_->compute_stream())
          ->wait(context_->compute_stream());
      stopped_by_ = static_cast<int>(signal.to_host<std::int64_t>().front());
      // Replicas of one process have no launcher, and share the signal.
      if (stopped_by_ != 0 && options_.replicas == 1) {
        stop_is_agreed();
      }
    }
    return stopped_by_ != 0;
  }

  double images_per_second() const {
    const auto done = static_cast<double>(position_.totals.samples - samples_at_start_);
    return done * communicator_.size() / std::max(seconds_since(start_), 1e-9);
  }

  // Of all ranks: each has done as much as this one, about.
  Progress progress(const char* phase, const Totals& totals, std::int64_t seen,
                    std::int64_t of_all) const {
    return {
        phase,  position_.epoch, options_.epochs,   std::min(seen * communicator_.size(), of_all),
        of_all, totals.loss(),   totals.accuracy(), images_per_second()};
  }

  void report_step(double loss, std::int64_t shard, long steps) {
    reporter_.plain_line(tutorial_line(
        position_.epoch, position_.step * batch_, shard,
        100.0 * static_cast<double>(position_.step) / static_cast<double>(steps), loss));
    reporter_.metrics({{"event", "step"},
                       {"epoch", position_.epoch},
                       {"step", position_.step},
                       {"loss", loss},
                       {"lr", optimizer_->lr()},
                       {"images_per_second", images_per_second()}});
  }

  // False when a signal came before the test phase was over: the epoch's steps are done, the phase
  // is not.
  bool finish_epoch() {
    const double train_seconds = seconds_since(start_);
    const double rate = images_per_second();
    const Totals train = reduced(position_.totals, communicator_, *context_);
    ddp_->broadcast_buffers(*model_);
    ddp_->check_equal(*model_);
    start_ = Clock::now();
    samples_at_start_ = position_.totals.samples;
    data::DataLoader loader(
        *context_, *data_.test, {transform_, false}, loader_options(false), position_.epoch,
        data::evaluation_shard(data_.test->size(), communicator_.rank(), communicator_.size()));
    const Totals test = reduced(
        evaluate(*context_, *model_, loader, normalization_,
                 [&](const Totals& so_far) {
                   Progress now = progress("test", so_far, so_far.samples, data_.test->size());
                   now.images_per_second = static_cast<double>(so_far.samples) *
                                           communicator_.size() /
                                           std::max(seconds_since(start_), 1e-9);
                   reporter_.progress(now);
                   return stop_signal() == 0;
                 }),
        communicator_, *context_);
    if (must_stop()) {
      return false;
    }
    char text[200];
    std::snprintf(text, sizeof text,
                  "epoch %d/%d: train loss %.4f accuracy %.4f, test loss %.4f accuracy %.4f, "
                  "%.0f images/s, %.1f s",
                  position_.epoch + 1, options_.epochs, train.loss(), train.accuracy(), test.loss(),
                  test.accuracy(), rate, train_seconds);
    reporter_.line(text);
    reporter_.metrics({{"event", "epoch"},
                       {"epoch", position_.epoch},
                       {"train_loss", train.loss()},
                       {"train_accuracy", train.accuracy()},
                       {"test_loss", test.loss()},
                       {"test_accuracy", test.accuracy()},
                       {"lr", optimizer_->lr()},
                       {"seconds", train_seconds},
                       {"images_per_second", rate}});
    const bool best = test.accuracy() > position_.best_accuracy;
    if (best) {
      position_.best_accuracy = test.accuracy();
    }
    ++position_.epoch;
    position_.step = 0;
    position_.totals = {};
    if (best && communicator_.rank() == 0) {
      save_weights(*model_, folder_.best_weights(), about());
    }
    if (position_.epoch % options_.checkpoint_every == 0 || position_.epoch == options_.epochs) {
      save();
    }
    return true;
  }

  StateText about() const { return describe_run(options_, *data_.train); }

  // Every rank calls it; rank 0 writes. Sums of a half-done epoch are stored over all ranks.
  void save() {
    Position saved = position_;
    saved.world = communicator_.size();
    saved.totals = reduced(position_.totals, communicator_, *context_);
    if (communicator_.rank() != 0) {
      return;
    }
    const auto path = folder_.checkpoint(position_.epoch, position_.total_steps);
    if (!std::filesystem::exists(path)) {
      save_checkpoint(path, *model_, *optimizer_, *parameters_, about(),
                      to_state(saved, options_, *context_));
    }
    folder_.prune();
  }

  // Rank 0 reads; all others get what it read.
  void resume() {
    const bool first = communicator_.rank() == 0;
    std::string position;
    if (first) {
      const std::filesystem::path newest = folder_.checkpoint_to_resume();
      const StateText state = load_checkpoint(newest, *model_, *optimizer_, *parameters_);
      position_ = position_from(state);
      check_resumable(state);
      for (const std::string& difference : differences(state, options_, *context_)) {
        reporter_.line("note: " + difference);
      }
      reporter_.line(concat("resumed from ", newest.string(), ": epoch ", position_.epoch,
                            ", step ", position_.step));
      position = to_text(position_);
    }
    position_ = position_from_text(comm::broadcast_text(communicator_, *context_, position));
    comm::broadcast(communicator_, optimizer_->velocity());
    if (!first) {
      position_.totals = {};
    }
  }

  void check_resumable(const StateText& state) const {
    RINGGRAD_CHECK(position_.world == communicator_.size() || options_.allow_resize,
                   "--resume: the run had ", counted(position_.world, "replica"),
                   " in all, and now there are ", communicator_.size(),
                   "; --allow-resize accepts it (the results then differ)");
    if (position_.step == 0) {
      return;
    }
    // What decides which images are left of the epoch, and how they are weighed.
    RINGGRAD_CHECK(position_.world == communicator_.size(),
                   "--resume: the run stopped within epoch ", position_.epoch,
                   "; the number of replicas can change between epochs only");
    const json was = to_json(options_from(state));
    const json now = to_json(options_);
    for (const char* key : {"data", "samples", "seed", "skip-bad", "allow-empty-classes",
                            "batch-size", "global-batch-size", "accumulate", "drop-last"}) {
      RINGGRAD_CHECK(json_text(was.at(key)) == json_text(now.at(key)),
                     "--resume: the run stopped within epoch ", position_.epoch, "; --", key,
                     " was ", json_text(was.at(key)), " and is ", json_text(now.at(key)),
                     ", which can change between epochs only");
    }
  }

  std::string best_text() const {
    char text[32];
    std::snprintf(text, sizeof text, "%.4f", position_.best_accuracy);
    return text;
  }

  const TrainOptions& options_;
  const RunFolder& folder_;
  const Data& data_;
  std::unique_ptr<Context> context_;
  comm::Communicator& communicator_;
  const std::int64_t batch_;  // of this replica
  const double base_lr_;
  const data::TransformKind transform_;
  const Normalization normalization_;
  std::unique_ptr<Module> model_;
  Reporter reporter_;
  std::unique_ptr<FlatParameters> parameters_;
  std::unique_ptr<SGD> optimizer_;
  Schedule schedule_;
  std::unique_ptr<comm::DistributedDataParallel> ddp_;
  Position position_;
  int stopped_by_ = 0;  // the signal that ended the run, of whichever rank
  Clock::time_point start_;
  std::int64_t samples_at_start_ = 0;
};

}  // namespace

int run_replica(const TrainOptions& options, const RunFolder& folder, const Data& data,
                std::unique_ptr<Context> context, comm::Communicator& communicator) {
  return Replica(options, folder, data, std::move(context), communicator).run();
}

}  // namespace ringgrad::training
