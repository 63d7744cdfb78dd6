#include "apps/saved_run.h"

#include "models/registry.h"
#include "training/run_folder.h"

namespace ringgrad::apps {

namespace fs = std::filesystem;

fs::path weights_file(const fs::path& path) {
  RINGGRAD_CHECK(fs::exists(path), path.string(), " does not exist");
  if (!fs::is_directory(path)) {
    return path;
  }
  if (fs::exists(path / "model.safetensors")) {
    return path / "model.safetensors";
  }
  const auto newest = training::RunFolder(path).newest_checkpoint();
  RINGGRAD_CHECK(newest.has_value(), path.string(),
                 " is neither a checkpoint nor the folder of a run that has one");
  return *newest / "model.safetensors";
}

SavedModel load_model(Context& context, const fs::path& path) {
  const fs::path file = weights_file(path);
  Safetensors content = read_safetensors(file);
  SavedModel saved{training::described_run(content.metadata, file.string()), nullptr};
  const training::TrainOptions& options = saved.run.options;
  const auto classes = options.num_classes > 0 ? Index{options.num_classes}
                                               : static_cast<Index>(saved.run.classes.size());
  saved.model = make_model(options.model, {classes, options.cifar_stem});
  saved.model->to(context, 0);
  load_weights(*saved.model, std::move(content), file.string());
  return saved;
}

}  // namespace ringgrad::apps
