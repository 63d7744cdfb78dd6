#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "apps/commands.h"
#include "apps/saved_run.h"
#include "data/dataset.h"
#include "data/sampler.h"
#include "data/transform.h"
#include "training/checkpoint_state.h"

namespace ringgrad::apps {
namespace {

struct InspectCommand {
  std::string what;
  std::string contact_sheet;
  std::string transform = "auto";
  std::int64_t batch_size = 64;
  std::uint64_t seed = 0;
  bool skip_bad = false;
};

void inspect_weights(const std::filesystem::path& path) {
  const std::filesystem::path file = weights_file(path);
  const Safetensors content = read_safetensors(file);
  std::int64_t elements = 0;
  for (const auto& [name, tensor] : content.tensors) {
    std::printf("%-40s %-5s %s\n", name.c_str(), name_of(tensor.dtype),
                tensor.shape_text().c_str());
    elements += tensor.count();
  }
  std::printf("%s: %zu tensors, %lld elements\n", file.c_str(), content.tensors.size(),
              static_cast<long long>(elements));
  for (const auto& [key, value] : content.metadata) {
    std::printf("%s: %s\n", key.c_str(), value.c_str());
  }
}

// The images of the first batch of epoch 0 as the network sees them, eight a row.
void write_contact_sheet(const InspectCommand& command, const data::Dataset& dataset) {
  training::TrainOptions options;
  options.data = command.what;
  options.transform = command.transform;
  const data::Transform transform{training::resolved_transform(options), true};
  data::DistributedSampler::Options order;
  order.seed = command.seed;
  std::vector<std::int64_t> indices = data::DistributedSampler(dataset.size(), order).indices();
  indices.resize(std::min(indices.size(), static_cast<std::size_t>(command.batch_size)));
  constexpr int kColumns = 8;
  constexpr int kGap = 2;
  data::Image sheet;
  int cell_height = 0;
  int cell_width = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    RandomStream random = data::augmentation_stream(command.seed, 0, indices[i]);
    const data::Image image = transform(dataset.image(indices[i]), random);
    if (i == 0) {
      cell_height = image.height + kGap;
      cell_width = image.width + kGap;
      const int rows = (static_cast<int>(indices.size()) + kColumns - 1) / kColumns;
      sheet = {rows * cell_height, kColumns * cell_width, {}};
      sheet.pixels.assign(std::size_t{3} * static_cast<std::size_t>(sheet.height * sheet.width),
                          255);
    }
    const int top = static_cast<int>(i) / kColumns * cell_height;
    const int left = static_cast<int>(i) % kColumns * cell_width;
    const int height = std::min(image.height, cell_height - kGap);
    const int width = std::min(image.width, cell_width - kGap);
    for (int y = 0; y < height; ++y) {
      std::copy(image.at(y, 0), image.at(y, 0) + std::ptrdiff_t{3} * width,
                sheet.at(top + y, left));
    }
  }
  data::write_png(command.contact_sheet, sheet);
  std::printf("%s: %zu images as the network sees them in epoch 0\n", command.contact_sheet.c_str(),
              indices.size());
}

void inspect_data(const InspectCommand& command) {
  data::DatasetOptions options;
  options.seed = command.seed;
  options.allow_empty_classes = true;
  options.skip_bad = command.skip_bad;
  const auto train = data::open_dataset(command.what, data::Split::train, options);
  options.known_classes = train->classes();
  const auto test = data::open_dataset(command.what, data::Split::test, options);
  std::vector<std::int64_t> counts(2 * train->classes().size());
  const auto count = [&](const data::Dataset& dataset, std::size_t column) {
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
      const auto label = static_cast<std::size_t>(dataset.label(i));
      if (label < train->classes().size()) {
        ++counts[2 * label + column];
      }
    }
    for (const std::string& warning : dataset.warnings()) {
      std::printf("warning: %s\n", warning.c_str());
    }
  };
  count(*train, 0);
  count(*test, 1);
  std::printf("%-6s %-24s %10s %10s\n", "label", "class", "train", "test");
  for (std::size_t c = 0; c < train->classes().size(); ++c) {
    std::printf("%-6zu %-24s %10lld %10lld\n", c, train->classes()[c].c_str(),
                static_cast<long long>(counts[2 * c]), static_cast<long long>(counts[2 * c + 1]));
  }
  const data::Image first = train->image(0);
  std::printf("%lld training and %lld test images; the first is %dx%d pixels\n",
              static_cast<long long>(train->size()), static_cast<long long>(test->size()),
              first.width, first.height);
  if (!command.contact_sheet.empty()) {
    write_contact_sheet(command, *train);
  }
}

int run(const InspectCommand& command) {
  if (std::filesystem::exists(command.what)) {
    inspect_weights(command.what);
  } else {
    inspect_data(command);
  }
  return 0;
}

}  // namespace

Action add_inspect(CLI::App& parent) {
  auto command = std::make_shared<InspectCommand>();
  CLI::App& app = *parent.add_subcommand("inspect", "What a checkpoint or a data set holds");
  app.footer(
      "Examples:\n  ringgrad inspect runs/cifar-net-1\n"
      "  ringgrad inspect folder:photos --contact-sheet sheet.png");
  app.add_option("what", command->what,
                 "Run, checkpoint or .safetensors file; or data as --data of train takes it")
      ->required();
  app.add_option("--contact-sheet", command->contact_sheet,
                 "PNG to write: a batch as the network sees it after augmentation");
  app.add_option("--transform", command->transform, "to-tensor, cifar, imagenet or auto")
      ->capture_default_str();
  app.add_option("--batch-size", command->batch_size, "Images on the sheet")->capture_default_str();
  app.add_option("--seed", command->seed, "Seed of order and augmentation")->capture_default_str();
  app.add_flag("--skip-bad", command->skip_bad, "List images that cannot be decoded and go on");
  return [command] { return run(*command); };
}

}  // namespace ringgrad::apps
