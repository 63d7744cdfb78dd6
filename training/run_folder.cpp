#include "training/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "runtime/error.h"
#include "runtime/file.h"

namespace ringgrad::training {
namespace {

namespace fs = std::filesystem;

// Complete checkpoints in the order of their names, which is the order of steps.
std::vector<fs::path> complete(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory() && name.rfind("step-", 0) == 0 &&
        name.find(".tmp.") == std::string::npos) {
      found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

RunFolder::~RunFolder() {
  if (lock_ >= 0) {
    close(lock_);  // which gives the lock back
  }
}

RunFolder RunFolder::next_free(const fs::path& runs, const std::string& name) {
  fs::create_directories(runs);
  for (int number = 1;; ++number) {
    const fs::path path = runs / concat(name, "-", number);
    if (fs::create_directory(path)) {
      return RunFolder(path);
    }
  }
}

void RunFolder::lock() {
  std::error_code error;
  fs::create_directories(checkpoints(), error);
  RINGGRAD_CHECK(!error, "run folder ", path_.string(), " cannot be made: ", error.message());
  const fs::path file = lock_file();
  lock_ = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  RINGGRAD_CHECK(lock_ >= 0, "cannot write ", system_error(file, errno));
  RINGGRAD_CHECK(flock(lock_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK, "run folder ",
                 path_.string(), " is in use by another process");
}

bool RunFolder::is_in_use() const {
  const int file = open(lock_file().c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) {
    return false;
  }
  const bool taken = flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(file);
  return taken;
}

fs::path RunFolder::checkpoint(int epoch, long steps) const {
  char name[64];
  std::snprintf(name, sizeof name, "step-%09ld-epoch-%04d", steps, epoch);
  return checkpoints() / name;
}

std::optional<fs::path> RunFolder::newest_checkpoint() const {
  const std::vector<fs::path> found = complete(checkpoints());
  return found.empty() ? std::nullopt : std::optional(found.back());
}

fs::path RunFolder::checkpoint_to_resume() const {
  const auto newest = newest_checkpoint();
  RINGGRAD_CHECK(newest.has_value(), "--resume: ", path_.string(), " holds no checkpoint");
  return *newest;
}

void RunFolder::prune() const {
  const std::vector<fs::path> found = complete(checkpoints());
  std::error_code ignored;
  for (std::size_t i = 0; i + 2 < found.size(); ++i) {
    fs::remove_all(found[i], ignored);
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(checkpoints(), ignored)) {
    if (entry.path().filename().string().find(".tmp.") != std::string::npos) {
      fs::remove_all(entry.path(), ignored);
    }
  }
}

void RunFolder::prepare(std::size_t bytes) const {
  std::error_code ignored;
  std::size_t taken = 0;
  for (const fs::directory_entry& entry :
       fs::recursive_directory_iterator(checkpoints(), ignored)) {
    taken += entry.is_regular_file() ? entry.file_size() : 0;
  }
  bytes -= std::min(bytes - 1, taken);
  const fs::path probe = path_ / ".space";
  const int descriptor = open(probe.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  RINGGRAD_CHECK(descriptor >= 0, "cannot write ", system_error(probe, errno));
  const int code = posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
  close(descriptor);
  unlink(probe.c_str());
  RINGGRAD_CHECK(code == 0, "run folder ", path_.string(), " needs ", bytes >> 20,
                 " MiB for checkpoints: ", system_error(path_, code));
}

}  // namespace ringgrad::training
