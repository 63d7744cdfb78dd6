#include <unistd.h>

#include <cstdio>
#include <memory>

#include "apps/commands.h"
#include "apps/saved_run.h"
#include "data/sampler.h"
#include "kernels/backends.h"
#include "runtime/cpu_features.h"
#include "training/phase.h"

namespace ringgrad::apps {
namespace {

struct EvalCommand {
  std::string path;
  std::string data;
  std::string device = "cpu";
  int threads = 0;
  std::int64_t batch_size = 64;
};

int run(const EvalCommand& command) {
  const auto context = kernels::open_context(command.device, command.threads);
  SavedModel saved = load_model(*context, command.path);
  training::TrainOptions& options = saved.run.options;
  if (!command.data.empty()) {
    options.data = command.data;
  }
  data::DatasetOptions opening = training::dataset_options(options);
  opening.classes = static_cast<int>(saved.run.classes.size());
  opening.known_classes = saved.run.classes;
  opening.allow_empty_classes = true;
  const auto dataset = data::open_dataset(options.data, data::Split::test, opening);
  const data::TransformKind transform = training::resolved_transform(options);
  data::DataLoader::Options loader_options;
  loader_options.batch_size = command.batch_size;
  loader_options.workers = std::min(4, cpu_features().cores);
  data::DataLoader loader(*context, *dataset, {transform, false}, loader_options, 0,
                          data::evaluation_shard(dataset->size(), 0, 1));
  const bool terminal = isatty(STDERR_FILENO) == 1;
  const training::Totals totals = training::evaluate(
      *context, *saved.model, loader, training::normalization_of(transform),
      [&](const training::Totals& so_far) {
        if (terminal) {
          std::fprintf(stderr, "\r%lld/%lld images", static_cast<long long>(so_far.samples),
                       static_cast<long long>(dataset->size()));
        }
        return true;
      });
  if (terminal) {
    std::fprintf(stderr, "\r\033[K");
  }
  std::printf("%s on %s: accuracy %.4f (%lld of %lld), loss %.4f\n",
              weights_file(command.path).c_str(), options.data.c_str(), totals.accuracy(),
              static_cast<long long>(totals.correct), static_cast<long long>(totals.samples),
              totals.loss());
  return 0;
}

}  // namespace

Action add_eval(CLI::App& parent) {
  auto command = std::make_shared<EvalCommand>();
  CLI::App& app = *parent.add_subcommand("eval", "Accuracy and loss of saved weights");
  app.footer(
      "Examples:\n  ringgrad eval runs/cifar-net-1\n"
      "  ringgrad eval runs/cifar-net-1/best.safetensors --data cifar10:cifar");
  app.add_option("path", command->path, "Run folder, checkpoint folder or .safetensors file")
      ->required();
  app.add_option("--data", command->data,
                 "Data to evaluate on; default: the training's test split");
  app.add_option("--device", command->device, "cpu, reference, cuda[:N] or emulated[:PROFILE]")
      ->capture_default_str();
  app.add_option("--threads", command->threads, "CPU threads; 0: all cores")->capture_default_str();
  app.add_option("--batch-size", command->batch_size, "Images per step")->capture_default_str();
  return [command] { return run(*command); };
}

}  // namespace ringgrad::apps
