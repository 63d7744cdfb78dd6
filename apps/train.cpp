#include <memory>
#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "comm/rendezvous.h"
#include "data/dataset.h"
#include "data/fetch.h"
#include "runtime/file.h"
#include "training/checkpoint_state.h"
#include "training/run_folder.h"
#include "training/trainer.h"

namespace ringgrad::apps {
namespace {

using nlohmann::json;
using training::TrainOptions;

struct TrainCommand {
  TrainOptions flags;
  std::string config;
  bool download = false;
  CLI::App* app = nullptr;
};

constexpr const char* kExamples = R"(Examples:
  ringgrad train --data idx:/usr/share/datasets/fashion-mnist --lr 0.05 --epochs 5
  ringgrad train --data cifar10:cifar --download --batch-size 64 --out runs/cifar
  ringgrad train --model resnet18 --data folder:photos --lr 0.01 --schedule step:7:0.1
  ringgrad train --resume --out runs/cifar --epochs 20
A folder of images is laid out as photos/train/CLASS/*.jpg and photos/val/CLASS/*.jpg.)";

// The settings that were given on the command line, by name.
json given_settings(const TrainCommand& command) {
  const json all = training::to_json(command.flags);
  json given = json::object();
  for (const auto& [key, value] : all.items()) {
    const CLI::Option* option = command.app->get_option_no_throw("--" + key);
    if (option != nullptr && option->count() > 0) {
      given[key] = value;
    }
  }
  return given;
}

bool is_there(const std::string& data) {
  try {
    data::open_dataset(data, data::Split::train);
    data::open_dataset(data, data::Split::test);
    return true;
  } catch (const Error&) {
    return false;
  }
}

int run(TrainCommand command) {
  const auto place = comm::placement_from(comm::process_environment, command.flags.secret_file);
  const bool reads_run = !place || place->rank == 0;  // the others get it from rank 0
  // Who restarts a job's ranks wants the run to go on.
  if (place && place->generation > 0 && reads_run && !command.flags.out.empty() &&
      training::RunFolder(command.flags.out).newest_checkpoint()) {
    command.flags.resume = true;
  }
  if (command.flags.resume) {
    RINGGRAD_CHECK(!command.flags.out.empty(), "--resume needs --out, the run's folder");
  }
  TrainOptions base;
  if (command.flags.resume && reads_run) {
    base = training::options_from(
        read_state(training::RunFolder(command.flags.out).checkpoint_to_resume()));
  }
  // What is no setting is each rank's own, and stays as the flags have it.
  TrainOptions options = command.flags;
  training::merge_json(options, training::to_json(base));
  if (!command.config.empty()) {
    const json config = json::parse(read_file(command.config), nullptr, false, true);
    RINGGRAD_CHECK(config.is_object(), command.config, ": not a JSON object of settings");
    try {
      training::merge_json(options, config);
    } catch (const Error& error) {
      throw Error(concat(command.config, ": ", error.what()));
    }
  }
  const json given = given_settings(command);
  training::merge_json(options, given);
  options.given_settings = training::pack(given);
  if (reads_run) {
    training::check(options);
  }
  if (command.download) {
    const data::DatasetSpec spec = data::parse_dataset_spec(options.data);
    RINGGRAD_CHECK(spec.kind == "cifar10" || spec.kind == "cifar100",
                   "--download knows cifar10 and cifar100, not ", spec.kind);
    if (!is_there(options.data)) {
      data::fetch(data::known_archive(spec.kind), spec.argument);
    }
  }
  return training::train(options, place);
}

// "all" is 0 within; a 0 that was typed is none.
std::string replicas_as_number(std::string& text) {
  if (text == "0") {
    return "0: expected 1 to 64, or all";
  }
  text = text == "all" ? "0" : text;
  return "";
}

}  // namespace

Action add_train(CLI::App& parent) {
  auto command = std::make_shared<TrainCommand>();
  CLI::App& app = *parent.add_subcommand("train", "Train a network, or resume a training");
  command->app = &app;
  app.footer(kExamples);
  TrainOptions& o = command->flags;
  const auto add = [&](const char* name, auto& field, const char* text, const char* group) {
    app.add_option(name, field, text)->capture_default_str()->group(group);
  };
  const auto flag = [&](const char* name, bool& field, const char* text, const char* group) {
    app.add_flag(name, field, text)->group(group);
  };
  add("--data", o.data,
      "idx:DIR, cifar10:DIR, cifar100:DIR, folder:DIR, or synthetic:HxW (patterns made from the "
      "seed)",
      "Data");
  add("--transform", o.transform, "to-tensor, cifar or imagenet; auto: imagenet for folders",
      "Data");
  add("--workers", o.workers, "Loader threads; -1: one per core, at most 4", "Data");
  add("--samples", o.samples, "Training images of synthetic data", "Data");
  flag("--download", command->download, "Get CIFAR-10 or CIFAR-100 first if it is not there",
       "Data");
  flag("--drop-last", o.drop_last, "Leave out the partial batch at the end of an epoch", "Data");
  flag("--skip-bad", o.skip_bad, "Leave out images that cannot be decoded, and list them", "Data");
  flag("--exif-rotation", o.exif_rotation,
       "Turn photographs as their cameras meant them (PyTorch does not)", "Data");
  flag("--allow-empty-classes", o.allow_empty_classes, "Accept class folders without images",
       "Data");
  add("--model", o.model, "cifar-net or resnet18", "Network");
  add("--num-classes", o.num_classes, "Classes of the last layer; 0: as many as the data has",
      "Network");
  add("--init", o.init, "Weights to start from (.safetensors)", "Network");
  flag("--cifar-stem", o.cifar_stem, "resnet18: 3x3 stride 1 without max-pool, for 32x32",
       "Network");
  add("--epochs", o.epochs, "Passes over the data", "Training");
  add("--batch-size", o.batch_size, "Images per step and replica", "Training");
  add("--global-batch-size", o.global_batch_size,
      "Images per step of all replicas together, instead", "Training");
  add("--accumulate", o.accumulate, "Batches whose gradients make one step of the optimizer",
      "Training");
  flag("--scale-lr", o.scale_lr,
       "Multiply the learning rate by the number of replicas; with --warmup", "Training");
  add("--lr", o.lr, "Learning rate", "Training");
  add("--momentum", o.momentum, "Momentum of SGD", "Training");
  add("--weight-decay", o.weight_decay, "Factor of the weights added to their gradients",
      "Training");
  flag("--nesterov", o.nesterov, "Nesterov's momentum", "Training");
  add("--label-smoothing", o.label_smoothing, "Share of the target spread over all classes",
      "Training");
  add("--schedule", o.schedule, "constant, step:SIZE:GAMMA (epochs, factor) or cosine", "Training");
  add("--warmup", o.warmup, "Epochs over which the rate grows from 0", "Training");
  add("--seed", o.seed, "First weights, order and augmentation follow from it", "Training");
  add("--device", o.device, "cpu, reference, cuda[:N] or emulated[:PROFILE]", "Running");
  add("--threads", o.threads, "CPU threads; 0: all cores", "Running");
  app.add_option(
         "--replicas", o.replicas,
         "Replicas in this process, each with its share of the data; all: one on each device")
      ->transform(CLI::Validator(replicas_as_number, "N|all"))
      ->capture_default_str()
      ->group("Running");
  add("--compression", o.compression, "What gradients travel as: none (fp32) or fp16",
      "Several replicas");
  flag("--find-unused-parameters", o.find_unused_parameters,
       "Parameters without a part in a step's loss count as zero, instead of an error",
       "Several replicas");
  flag("--sync-bn", o.sync_bn,
       "Batch norm over the batches of all replicas together, as SyncBatchNorm",
       "Several replicas");
  add("--backend", o.backend,
      "What processes reduce gradients with: ring (our own), mpi, nccl; auto: ring on one host, "
      "between hosts mpi where mpirun or srun started the job",
      "Several replicas");
  add("--transport", o.transport,
      "Of the ring between processes: shared (memory), tcp; auto: shared where all are on one host",
      "Several replicas");
  flag("--check-collectives", o.check_collectives,
       "With mpi: ranks compare what they call each time, as the ring does anyway",
       "Several replicas");
  add("--interface", o.interface, "Network interface that other hosts connect to",
      "Several replicas");
  add("--secret-file", o.secret_file, "File with the job's secret, instead of RINGGRAD_SECRET",
      "Several replicas");
  add("--comm-timeout", o.comm_timeout, "Seconds without progress until a collective fails",
      "Several replicas");
  add("--out", o.out, "The run's folder; empty: runs/MODEL-N", "Running");
  flag("--resume", o.resume, "Go on from the newest checkpoint in --out, with its settings",
       "Running");
  flag("--allow-resize", o.allow_resize,
       "Resume with another number of replicas; the results then differ", "Running");
  add("--checkpoint-every", o.checkpoint_every, "Epochs between two checkpoints", "Running");
  add("--save-every", o.save_every, "Steps between two checkpoints, besides", "Running");
  add("--config", command->config, "JSON file of settings named like these; flags win", "Running");
  return [command] { return run(*command); };
}

}  // namespace ringgrad::apps
