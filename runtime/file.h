// Files are written whole or not at all: to a temporary beside the target, flushed to the disk,
// renamed.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ringgrad {

// A file under way. Nothing is seen at `path` before commit(); without it the temporary is removed.
// Every failure (full disk, no permission) is an Error that names the file and the reason.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(const void* data, std::size_t bytes);
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

void write_file(const std::filesystem::path& path, std::string_view content);
// The whole file; Error with path and reason if it cannot be read.
std::string read_file(const std::filesystem::path& path);
// Flushes a folder's entries (a rename inside it) to the disk.
void sync_folder(const std::filesystem::path& folder);
// "path: reason", with the system's words for errno.
std::string system_error(const std::filesystem::path& path, int code);

}  // namespace ringgrad
