#include <algorithm>
#include <filesystem>
#include <sstream>

#include "data/dataset.h"
#include "data/pickle.h"
#include "runtime/error.h"
#include "runtime/file.h"

namespace ringgrad::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPixels = 3072;  // 3 planes of 32x32

// One file of the data set, whichever version it came in.
struct CifarFile {
  fs::path path;
  std::vector<std::int32_t> labels;
  std::string planes;  // (N,3,32,32)
};

void check_labels(const CifarFile& file, int classes, std::size_t record, std::size_t label_at) {
  for (std::size_t i = 0; i < file.labels.size(); ++i) {
    RINGGRAD_CHECK(file.labels[i] >= 0 && file.labels[i]<classes, file.path.string(), ": label ",
                                                         file.labels[i], " of image ", i, record> 0
                       ? concat(" (byte ", i * record + label_at, ")")
                       : "",
                   " is not below ", classes);
  }
}

// Records of label bytes (one; coarse and fine for CIFAR-100) and pixels.
CifarFile read_binary(const fs::path& path, int classes) {
  const std::size_t labels = classes == 10 ? 1 : 2;
  const std::size_t record = labels + kPixels;
  const std::string bytes = read_file(path);
  RINGGRAD_CHECK(!bytes.empty() && bytes.size() % record == 0, path.string(), ": ", bytes.size(),
                 " bytes are not a multiple of the record's ", record,
                 "; the file is damaged or not a CIFAR-", classes, " batch");
  CifarFile file{path, {}, {}};
  file.planes.reserve(bytes.size());
  for (std::size_t at = 0; at < bytes.size(); at += record) {
    file.labels.push_back(static_cast<unsigned char>(bytes[at + labels - 1]));
    file.planes.append(bytes, at + labels, kPixels);
  }
  check_labels(file, classes, record, labels - 1);
  return file;
}

// A dictionary with "data", a NumPy array (N, 3072) of bytes, and "labels" or "fine_labels", a
// list. A NumPy array is pickled as an object whose state is (version, shape, dtype, is Fortran
// order, bytes).
CifarFile read_python(const fs::path& path, int classes) {
  CifarFile file{path, {}, {}};
  const std::string bytes = read_file(path);
  try {
    const Pickle pickle = read_pickle(bytes);
    const PickleValue* labels = pickle.root->find(classes == 10 ? "labels" : "fine_labels");
    const PickleValue* array = pickle.root->find("data");
    RINGGRAD_CHECK(labels != nullptr && labels->kind == PickleValue::Kind::list,
                   "no list of labels in it");
    RINGGRAD_CHECK(array != nullptr && array->state != nullptr && array->state->items.size() == 5,
                   "its data is not a NumPy array");
    const auto& state = array->state->items;
    const auto& dtype = state[2]->items;
    RINGGRAD_CHECK(
        dtype.size() == 2 && !dtype[1]->items.empty() && dtype[1]->items.front()->text == "u1",
        "its data is not an array of bytes");
    const auto& shape = state[1]->items;
    RINGGRAD_CHECK(shape.size() == 2 && shape[1]->integer == std::int64_t{kPixels} &&
                       static_cast<std::size_t>(shape[0]->integer) == labels->items.size() &&
                       state[4]->text.size() == labels->items.size() * kPixels,
                   "its data does not have 3072 bytes for each of ", labels->items.size(),
                   " labels");
    RINGGRAD_CHECK(state[3]->integer == 0, "its data is in Fortran order");
    for (const PickleValue* label : labels->items) {
      RINGGRAD_CHECK(label->kind == PickleValue::Kind::integer, "a label is not a number");
      file.labels.push_back(static_cast<std::int32_t>(label->integer));
    }
    file.planes = state[4]->text;
  } catch (const Error& error) {
    throw Error(concat(path.string(), ": ", error.what()));
  }
  check_labels(file, classes, 0, 0);
  return file;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty()) {
      lines.push_back(line);
    }
  }
  return lines;
}

std::vector<std::string> names_in_pickle(const fs::path& path, const char* key) {
  std::vector<std::string> names;
  try {
    const Pickle pickle = read_pickle(read_file(path));
    const PickleValue* list = pickle.root->find(key);
    RINGGRAD_CHECK(list != nullptr, "no list ", key);
    for (const PickleValue* name : list->items) {
      names.push_back(name->text);
    }
  } catch (const Error& error) {
    throw Error(concat("data cifar: ", path.string(), ": ", error.what()));
  }
  return names;
}

std::vector<std::string> class_names(const fs::path& folder, bool binary, int classes) {
  std::vector<std::string> names;
  if (binary) {
    const fs::path path = folder / (classes == 10 ? "batches.meta.txt" : "fine_label_names.txt");
    if (fs::exists(path)) {
      names = lines_of(read_file(path));
    }
  } else {
    const fs::path path = folder / (classes == 10 ? "batches.meta" : "meta");
    if (fs::exists(path)) {
      names = names_in_pickle(path, classes == 10 ? "label_names" : "fine_label_names");
    }
  }
  if (names.size() != static_cast<std::size_t>(classes)) {
    names.clear();
    for (int c = 0; c < classes; ++c) {
      names.push_back(std::to_string(c));
    }
  }
  return names;
}

class CifarDataset : public Dataset {
 public:
  CifarDataset(const fs::path& folder, Split split, int classes) {
    const std::vector<std::string> stems =
        classes == 10
            ? (split == Split::train
                   ? std::vector<std::string>{"data_batch_1", "data_batch_2", "data_batch_3",
                                              "data_batch_4", "data_batch_5"}
                   : std::vector<std::string>{"test_batch"})
            : std::vector<std::string>{split == Split::train ? "train" : "test"};
    const std::string number = std::to_string(classes);
    const std::vector<fs::path> places = {folder, folder / ("cifar-" + number + "-batches-bin"),
                                          folder / ("cifar-" + number + "-batches-py"),
                                          folder / ("cifar-" + number + "-binary"),
                                          folder / ("cifar-" + number + "-python")};
    for (const fs::path& place : places) {
      for (const bool binary : {true, false}) {
        const std::string suffix = binary ? ".bin" : "";
        if (!fs::is_regular_file(place / (stems.front() + suffix))) {
          continue;
        }
        for (const std::string& stem : stems) {
          const fs::path path = place / (stem + suffix);
          files_.push_back(binary ? read_binary(path, classes) : read_python(path, classes));
          begin_.push_back(size_);
          size_ += static_cast<std::int64_t>(files_.back().labels.size());
        }
        classes_ = class_names(place, binary, classes);
        return;
      }
    }
    throw Error(concat("data cifar", classes, ": ", folder.string(), " has neither ", stems.front(),
                       ".bin nor ", stems.front(), " (`ringgrad fetch cifar", classes, " --to ",
                       folder.string(), "` gets them)"));
  }

  std::int64_t size() const override { return size_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  std::int32_t label(std::int64_t index) const override {
    const auto [file, at] = locate(index);
    return file->labels[at];
  }
  Image image(std::int64_t index) const override {
    const auto [file, at] = locate(index);
    Image image{32, 32, std::vector<std::uint8_t>(kPixels)};
    const char* planes = file->planes.data() + at * kPixels;
    for (std::size_t i = 0; i < kPixels; ++i) {
      image.pixels[i] = static_cast<std::uint8_t>(planes[i % 3 * 1024 + i / 3]);
    }
    return image;
  }
  std::string source(std::int64_t index) const override {
    const auto [file, at] = locate(index);
    return concat(file->path.string(), " image ", at);
  }

 private:
  std::pair<const CifarFile*, std::size_t> locate(std::int64_t index) const {
    const auto after = std::upper_bound(begin_.begin(), begin_.end(), index);
    const auto file = static_cast<std::size_t>(after - begin_.begin() - 1);
    return {&files_[file], static_cast<std::size_t>(index - begin_[file])};
  }

  std::vector<CifarFile> files_;
  std::vector<std::int64_t> begin_;
  std::int64_t size_ = 0;
  std::vector<std::string> classes_;
};

}  // namespace

std::unique_ptr<Dataset> open_cifar(const std::string& folder, Split split, int classes) {
  return std::make_unique<CifarDataset>(folder, split, classes);
}

}  // namespace ringgrad::data
