#include <zlib.h>

#include <algorithm>
#include <filesystem>

#include "data/dataset.h"
#include "data/resize.h"
#include "runtime/error.h"
#include "runtime/file.h"

namespace ringgrad::data {
namespace {

namespace fs = std::filesystem;

// An IDX array of bytes: dimensions and content.
struct IdxArray {
  std::vector<std::int64_t> extents;
  std::string bytes;
};

class GzFile {
 public:
  explicit GzFile(const fs::path& path) : path_(path), file_(gzopen(path.c_str(), "rb")) {
    RINGGRAD_CHECK(file_ != nullptr, "cannot read ", system_error(path, errno));
  }
  GzFile(const GzFile&) = delete;
  GzFile& operator=(const GzFile&) = delete;
  ~GzFile() { gzclose(file_); }

  // Up to `bytes` bytes; fewer at the end.
  std::size_t read(char* to, std::size_t bytes) {
    std::size_t done = 0;
    while (done < bytes) {
      const auto part = static_cast<unsigned>(std::min<std::size_t>(bytes - done, 1U << 30));
      const int got = gzread(file_, to + done, part);
      int code = Z_OK;
      const char* reason = gzerror(file_, &code);
      RINGGRAD_CHECK(got >= 0 && code != Z_BUF_ERROR, path_.string(), ": damaged gz file (", reason,
                     ")");
      if (got == 0) {
        break;
      }
      done += static_cast<std::size_t>(got);
    }
    return done;
  }

 private:
  fs::path path_;
  gzFile file_;
};

IdxArray read_idx(const fs::path& path, int rank) {
  GzFile file(path);
  unsigned char magic[4];
  RINGGRAD_CHECK(file.read(reinterpret_cast<char*>(magic), 4) == 4 && magic[0] == 0 &&
                     magic[1] == 0 && magic[2] == 8 && magic[3] == rank,
                 path.string(), ": not an IDX file of bytes with ", rank, " dimension",
                 rank == 1 ? "" : "s");
  IdxArray array;
  std::int64_t count = 1;
  for (int i = 0; i < rank; ++i) {
    unsigned char raw[4];
    RINGGRAD_CHECK(file.read(reinterpret_cast<char*>(raw), 4) == 4, path.string(),
                   ": the file ends within its header");
    const std::int64_t extent = std::int64_t{raw[0]} << 24 | raw[1] << 16 | raw[2] << 8 | raw[3];
    array.extents.push_back(extent);
    RINGGRAD_CHECK(!__builtin_mul_overflow(count, extent, &count) && count <= std::int64_t{1} << 40,
                   path.string(), ": the header claims more than 2^40 bytes");
  }
  // Grown as data arrives, so that a wrong header cannot ask for memory that the file does not
  // fill.
  constexpr std::int64_t kStep = std::int64_t{16} << 20;
  while (static_cast<std::int64_t>(array.bytes.size()) < count) {
    const std::size_t before = array.bytes.size();
    const auto wanted =
        static_cast<std::size_t>(std::min(kStep, count - static_cast<std::int64_t>(before)));
    array.bytes.resize(before + wanted);
    const std::size_t got = file.read(array.bytes.data() + before, wanted);
    RINGGRAD_CHECK(got == wanted, path.string(), ": holds ", before + got,
                   " bytes of data; its header says ", count);
  }
  char extra = 0;
  RINGGRAD_CHECK(file.read(&extra, 1) == 0, path.string(), ": goes on after the ", count,
                 " bytes of data that its header says");
  return array;
}

fs::path plain_or_gz(const fs::path& folder, const std::string& name) {
  for (const std::string& candidate : {name, name + ".gz"}) {
    if (fs::exists(folder / candidate)) {
      return folder / candidate;
    }
  }
  throw Error(concat("data idx: ", folder.string(), " has neither ", name, " nor ", name, ".gz"));
}

class IdxDataset : public Dataset {
 public:
  IdxDataset(const fs::path& folder, Split split) {
    const std::string prefix = split == Split::train ? "train" : "t10k";
    const fs::path labels_path = plain_or_gz(folder, prefix + "-labels-idx1-ubyte");
    path_ = plain_or_gz(folder, prefix + "-images-idx3-ubyte");
    images_ = read_idx(path_, 3);
    labels_ = read_idx(labels_path, 1);
    RINGGRAD_CHECK(images_.extents[0] == labels_.extents[0], path_.string(), " has ",
                   images_.extents[0], " images, ", labels_path.string(), " has ",
                   labels_.extents[0], " labels");
    RINGGRAD_CHECK(images_.extents[0] == 0 || (images_.extents[1] > 0 && images_.extents[2] > 0),
                   path_.string(), ": images of ", images_.extents[1], "x", images_.extents[2]);
    const int most =
        labels_.bytes.empty()
            ? 0
            : *std::max_element(reinterpret_cast<const unsigned char*>(labels_.bytes.data()),
                                reinterpret_cast<const unsigned char*>(labels_.bytes.data()) +
                                    labels_.bytes.size());
    for (int c = 0; c <= std::max(most, 9); ++c) {
      classes_.push_back(std::to_string(c));
    }
  }

  std::int64_t size() const override { return images_.extents[0]; }
  const std::vector<std::string>& classes() const override { return classes_; }
  std::int32_t label(std::int64_t index) const override {
    return static_cast<unsigned char>(labels_.bytes[static_cast<std::size_t>(index)]);
  }

  Image image(std::int64_t index) const override {
    const int h = static_cast<int>(images_.extents[1]);
    const int w = static_cast<int>(images_.extents[2]);
    Image rgb{h, w, {}};
    rgb.pixels.resize(std::size_t{3} * static_cast<std::size_t>(h) * static_cast<std::size_t>(w));
    const char* gray = images_.bytes.data() + index * h * w;
    for (std::size_t i = 0; i < rgb.pixels.size(); ++i) {
      rgb.pixels[i] = static_cast<std::uint8_t>(gray[i / 3]);
    }
    constexpr int kLeast = 32;
    if (h >= kLeast && w >= kLeast) {
      return rgb;
    }
    const int height = std::max(h, kLeast);
    const int width = std::max(w, kLeast);
    return crop(rgb, -((height - h) / 2), -((width - w) / 2), height, width);
  }

  std::string source(std::int64_t index) const override {
    return concat(path_.string(), " image ", index);
  }

 private:
  fs::path path_;
  IdxArray images_, labels_;
  std::vector<std::string> classes_;
};

}  // namespace

std::unique_ptr<Dataset> open_idx(const std::string& folder, Split split) {
  return std::make_unique<IdxDataset>(folder, split);
}

}  // namespace ringgrad::data
