// Data sets: numbered images with labels.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/image.h"

namespace ringgrad::data {

class Dataset {
 public:
  Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;
  virtual ~Dataset() = default;

  virtual std::int64_t size() const = 0;
  // Class names by label, or their numbers.
  virtual const std::vector<std::string>& classes() const = 0;
  virtual std::int32_t label(std::int64_t index) const = 0;
  // Decodes; may be called from several threads. Error with the file's name.
  virtual Image image(std::int64_t index) const = 0;
  // Where the sample came from, for messages: a path, or file and position.
  virtual std::string source(std::int64_t index) const = 0;
  // What opening it found that a user should know, a line each.
  const std::vector<std::string>& warnings() const { return warnings_; }

 protected:
  std::vector<std::string> warnings_;
};

enum class Split { train, test };

struct DatasetOptions {
  std::uint64_t seed = 0;       // synthetic
  std::int64_t samples = 2048;  // synthetic: of the training split; the test split has a quarter
  int classes = 10;             // synthetic
  bool allow_empty_classes = false;  // folder
  bool exif_rotation = false;        // folder: turn photographs as their cameras meant them
  bool skip_bad = false;  // folder: leave out files that cannot be decoded, and list them
  std::vector<std::string>
      known_classes;  // folder: the training split's; the test split must fit them
};

// "idx:DIR", "cifar10:DIR", "cifar100:DIR", "folder:DIR" or "synthetic:HxW".
std::unique_ptr<Dataset> open_dataset(const std::string& spec, Split split,
                                      const DatasetOptions& options = {});

// What a spec means, without opening it.
struct DatasetSpec {
  std::string kind;      // "idx", "cifar10", …
  std::string argument;  // the folder, or HxW
};
DatasetSpec parse_dataset_spec(const std::string& spec);

// ---- the kinds ----

// IDX files, plain or gz, as MNIST and Fashion-MNIST come:
// {train,t10k}-{images-idx3,labels-idx1}-ubyte[.gz]. Gray becomes three equal channels; images
// smaller than 32x32 are padded with zeros on all sides to that. Format:
// http://yann.lecun.com/exdb/mnist.
std::unique_ptr<Dataset> open_idx(const std::string& folder, Split split);
// CIFAR-10 or CIFAR-100 (fine labels): the binary version (data_batch_1.bin …) or the python
// version (data_batch_1 …), in the folder itself or in the archive's own folder inside it. Format:
// https://www.cs.toronto.edu/~kriz/cifar.html.
std::unique_ptr<Dataset> open_cifar(const std::string& folder, Split split, int classes);
// FOLDER/train/CLASS/*.jpg and FOLDER/val/CLASS/*.jpg; classes are numbered in the order of their
// names.
std::unique_ptr<Dataset> open_folder(const std::string& folder, Split split,
                                     const DatasetOptions& options);
// Images with learnable patterns made from the seed: a colour and a grating per class, plus noise.
std::unique_ptr<Dataset> open_synthetic(const std::string& size, Split split,
                                        const DatasetOptions& options);

}  // namespace ringgrad::data
