#include <algorithm>
#include <filesystem>

#include "data/dataset.h"
#include "runtime/error.h"

namespace ringgrad::data {
namespace {

namespace fs = std::filesystem;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool is_image_name(const fs::path& path) {
  const std::string extension = lower(path.extension().string());
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

// The entries of a folder in the order of their names; dot-files are left out and counted.
std::vector<fs::path> sorted_entries(const fs::path& folder, std::vector<std::string>& hidden) {
  std::vector<fs::path> entries;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().front() == '.') {
      hidden.push_back(entry.path().string());
    } else {
      entries.push_back(entry.path());
    }
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

class FolderDataset : public Dataset {
 public:
  FolderDataset(const fs::path& root, const DatasetOptions& options) {
    std::vector<std::string> hidden;
    std::vector<std::string> other;
    std::vector<fs::path> folders;
    for (const fs::path& entry : sorted_entries(root, hidden)) {
      if (fs::is_directory(entry)) {
        folders.push_back(entry);
      } else {
        other.push_back(entry.string());
      }
    }
    RINGGRAD_CHECK(!folders.empty(), "data folder: ", root.string(),
                   " holds no class folders; expected ", root.string(), "/CLASS/*.jpg");
    exif_rotation_ = options.exif_rotation;
    classes_ = options.known_classes;

    for (const fs::path& folder : folders) {
      const std::string name = folder.filename().string();
      auto found = std::find(classes_.begin(), classes_.end(), name);
      if (found == classes_.end()) {
        RINGGRAD_CHECK(options.known_classes.empty(), "data folder: ", folder.string(),
                       " is a class that the training split does not have");
        classes_.push_back(name);
        found = classes_.end() - 1;
      }
      const auto label = static_cast<std::int32_t>(found - classes_.begin());
      for (const fs::path& file : sorted_entries(folder, hidden)) {
        if (is_image_name(file)) {
          files_.push_back({file, label});
        } else {
          other.push_back(file.string());
        }
      }
    }
    if (options.skip_bad) {
      skip_undecodable();
    }
    check_every_class_has_files(folders, options);
    note(hidden, "names that start with a dot are ignored");
    note(other, "files that are neither JPEG nor PNG by name are ignored");
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
  const std::vector<std::string>& classes() const override { return classes_; }
  std::int32_t label(std::int64_t index) const override {
    return files_[static_cast<std::size_t>(index)].label;
  }
  Image image(std::int64_t index) const override {
    return decode_image(files_[static_cast<std::size_t>(index)].path, exif_rotation_);
  }
  std::string source(std::int64_t index) const override {
    return files_[static_cast<std::size_t>(index)].path.string();
  }

 private:
  struct File {
    fs::path path;
    std::int32_t label;
  };

  void note(const std::vector<std::string>& paths, const char* what) {
    if (!paths.empty()) {
      warnings_.push_back(concat(paths.size(), " ", what, ", ", paths.front(),
                                 paths.size() > 1 ? " among them" : ""));
    }
  }

  void check_every_class_has_files(const std::vector<fs::path>& folders,
                                   const DatasetOptions& options) const {
    for (const fs::path& folder : folders) {
      const bool found = std::any_of(files_.begin(), files_.end(), [&](const File& file) {
        return file.path.parent_path() == folder;
      });
      RINGGRAD_CHECK(found || options.allow_empty_classes, "data folder: class ", folder.string(),
                     " has no JPEG or PNG files", options.skip_bad ? " that can be read" : "",
                     " (--allow-empty-classes accepts it)");
    }
  }

  // Decodes every file once, so that the set that is left is the same for every rank and epoch.
  void skip_undecodable() {
    std::vector<File> good;
    for (File& file : files_) {
      try {
        decode_image(file.path);
        good.push_back(std::move(file));
      } catch (const Error& error) {
        warnings_.push_back(concat("skipped ", error.what()));
      }
    }
    files_ = std::move(good);
  }

  bool exif_rotation_ = false;
  std::vector<std::string> classes_;
  std::vector<File> files_;
};

}  // namespace

std::unique_ptr<Dataset> open_folder(const std::string& folder, Split split,
                                     const DatasetOptions& options) {
  RINGGRAD_CHECK(fs::is_directory(folder), "data folder: ", folder, " is not a folder");
  const std::vector<std::string> names = split == Split::train
                                             ? std::vector<std::string>{"train"}
                                             : std::vector<std::string>{"val", "test"};
  for (const std::string& name : names) {
    if (fs::is_directory(fs::path(folder) / name)) {
      return std::make_unique<FolderDataset>(fs::path(folder) / name, options);
    }
  }
  throw Error(concat("data folder: ", folder, " has no folder ", names.front(),
                     "; expected train/CLASS/*.jpg and val/CLASS/*.jpg"));
}

}  // namespace ringgrad::data
