// The folder of a training run:
//
//   run.log                 every line of output
//   metrics.jsonl           an object per epoch and per 100 steps
//   progress.txt            where it stands now, one line
//   checkpoints/step-…      the newest two
//   best.safetensors        the weights with the best test accuracy so far
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

namespace ringgrad::training {

class RunFolder {
 public:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
  RunFolder(RunFolder&& other) noexcept
      : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)) {}
  RunFolder& operator=(RunFolder&&) = delete;
  ~RunFolder();

  // RUNS/NAME-1, or the next number that is free; made here, so that it is nobody else's.
  static RunFolder next_free(const std::filesystem::path& runs, const std::string& name);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path log() const { return path_ / "run.log"; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path progress() const { return path_ / "progress.txt"; }
  std::filesystem::path best_weights() const { return path_ / "best.safetensors"; }
  // The checkpoint after `steps` steps since the start of the run, `epoch` epochs of them complete.
  std::filesystem::path checkpoint(int epoch, long steps) const;

  // The newest complete checkpoint, if there is any.
  std::optional<std::filesystem::path> newest_checkpoint() const;
  // The same for a run that is to be resumed: Error where there is none.
  std::filesystem::path checkpoint_to_resume() const;
  // Removes all but the newest two, and what a killed save left behind.
  void prune() const;
  // Makes the folder if needed and keeps it for this process while the object lives: two runs that
  // wrote the same folder would remove each other's checkpoints. Error if another process has it.
  void lock();
  // Whether a process holds the lock.
  bool is_in_use() const;
  // Proves, by taking and giving back the space, that `bytes` bytes can be written beside what the
  // folder's checkpoints take already.
  void prepare(std::size_t bytes) const;

 private:
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path lock_file() const { return path_ / ".lock"; }
  std::filesystem::path path_;
  int lock_ = -1;  // descriptor of the lock file
};

}  // namespace ringgrad::training
