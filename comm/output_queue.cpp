#include "comm/output_queue.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "runtime/deadline.h"
#include "runtime/error.h"

namespace ringgrad::comm {
namespace {

constexpr std::size_t kChunk = 4096;
constexpr std::chrono::seconds kHurry{1};

}  // namespace

// What can block is opened anew: the flag that keeps it from that would be seen by whoever shares
// our description with us, the shell above all.
OutputQueue::OutputQueue(int descriptor) : given_(descriptor) {
  struct stat status {};
  if (fstat(descriptor, &status) == 0 && (S_ISFIFO(status.st_mode) || isatty(descriptor) == 1)) {
    own_ = Socket(open(concat("/proc/self/fd/", descriptor).c_str(),
                       O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  }
}

void OutputQueue::put(const std::string& line) {
  if (text_.size() >= kBytes && (hurried_ || stalled())) {
    ++left_out_;
    return;
  }
  if (text_.empty()) {
    moved_at_ = std::chrono::steady_clock::now();
  }
  text_ += line;
}

void OutputQueue::flush() {
  while (!text_.empty()) {
    pollfd file{descriptor(), POLLOUT, 0};
    if (poll(&file, 1, 0) <= 0) {
      return;
    }
    const ssize_t wrote =
        write(descriptor(), text_.data() + written_, std::min(kChunk, text_.size() - written_));
    if (wrote < 0 && (errno == EAGAIN || errno == EINTR)) {
      return;
    }
    // A terminal that went away, or a full disk, ends nothing.
    written_ = wrote < 0 ? text_.size() : written_ + static_cast<std::size_t>(wrote);
    moved_at_ = std::chrono::steady_clock::now();
    if (written_ == text_.size()) {
      written_ = 0;
      text_.clear();
    }
    if (text_.empty() && left_out_ > 0) {
      text_ =
          concat("ringgrad launch: ", counted(left_out_, "line"), " left out, which nobody took\n");
      left_out_ = 0;
    }
  }
}

OutputStreams::OutputStreams() : out_(STDOUT_FILENO), err_(STDERR_FILENO) {
  struct stat out {};
  struct stat err {};
  same_ = fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
          out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}

void OutputStreams::flush(bool hurry) {
  for (OutputQueue* queue : all()) {
    if (hurry) {
      queue->hurry();
    }
    queue->flush();
  }
}

void OutputStreams::drain(const std::function<bool()>& hurry) {
  std::optional<Deadline> last;
  for (OutputQueue* queue : all()) {
    while (!queue->empty() && !queue->stalled()) {
      if (!last && hurry()) {
        last.emplace(kHurry);
      }
      if (last && last->passed()) {
        return;
      }
      pollfd file{queue->descriptor(), POLLOUT, 0};
      poll(&file, 1, 100);
      queue->flush();
    }
  }
}

}  // namespace ringgrad::comm
