#include "runtime/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "runtime/error.h"

namespace ringgrad {

std::string system_error(const std::filesystem::path& path, int code) {
  return concat(path.string(), ": ", std::generic_category().message(code));
}

AtomicFile::AtomicFile(std::filesystem::path path)
    : path_(std::move(path)),
      temporary_(path_.string() + ".tmp." + std::to_string(getpid())),
      descriptor_(open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) {
    throw Error("cannot write " + system_error(path_, errno));
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) {
    close(descriptor_);
    unlink(temporary_.c_str());
  }
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor_, next, bytes);
    if (written < 0) {
      if (errno == EINTR) {
        continue;
      }
      throw Error("cannot write " + system_error(path_, errno));
    }
    next += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::commit() {
  if (fsync(descriptor_) != 0) {
    throw Error("cannot write " + system_error(path_, errno));
  }
  close(descriptor_);
  descriptor_ = -1;
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int code = errno;
    unlink(temporary_.c_str());
    throw Error("cannot write " + system_error(path_, code));
  }
  sync_folder(path_.parent_path());
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content.data(), content.size());
  file.commit();
}

std::string read_file(const std::filesystem::path& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    throw Error("cannot read " + system_error(path, errno));
  }
  std::string content;
  char chunk[1 << 16];
  for (;;) {
    const ssize_t got = read(descriptor, chunk, sizeof chunk);
    if (got > 0) {
      content.append(chunk, static_cast<std::size_t>(got));
    } else if (got == 0) {
      break;
    } else if (errno != EINTR) {
      const int code = errno;
      close(descriptor);
      throw Error("cannot read " + system_error(path, code));
    }
  }
  close(descriptor);
  return content;
}

void sync_folder(const std::filesystem::path& folder) {
  const std::string name = folder.empty() ? "." : folder.string();
  const int descriptor = open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) {
    // Some file systems cannot flush a folder; the rename itself is still atomic there.
    (void)fsync(descriptor);
    close(descriptor);
  }
}

}  // namespace ringgrad
