#include "data/dataset.h"

#include "runtime/error.h"

namespace ringgrad::data {

DatasetSpec parse_dataset_spec(const std::string& spec) {
  const std::size_t colon = spec.find(':');
  const std::string kind = spec.substr(0, colon);
  for (const char* known : {"idx", "cifar10", "cifar100", "folder", "synthetic"}) {
    if (kind == known) {
      RINGGRAD_CHECK(colon != std::string::npos && colon + 1 < spec.size(), "data '", spec,
                     "': expected ", kind, kind == "synthetic" ? ":HxW" : ":DIR");
      return {kind, spec.substr(colon + 1)};
    }
  }
  throw Error(
      concat("data '", spec,
             "': expected idx:DIR, cifar10:DIR, cifar100:DIR, folder:DIR or synthetic:HxW"));
}

std::unique_ptr<Dataset> open_dataset(const std::string& spec, Split split,
                                      const DatasetOptions& options) {
  const DatasetSpec parsed = parse_dataset_spec(spec);
  std::unique_ptr<Dataset> dataset;
  if (parsed.kind == "idx") {
    dataset = open_idx(parsed.argument, split);
  } else if (parsed.kind == "folder") {
    dataset = open_folder(parsed.argument, split, options);
  } else if (parsed.kind == "synthetic") {
    dataset = open_synthetic(parsed.argument, split, options);
  } else {
    dataset = open_cifar(parsed.argument, split, parsed.kind == "cifar10" ? 10 : 100);
  }
  RINGGRAD_CHECK(dataset->size() > 0, "data '", spec, "': the ",
                 split == Split::train ? "training" : "test", " split has no images");
  return dataset;
}

}  // namespace ringgrad::data
