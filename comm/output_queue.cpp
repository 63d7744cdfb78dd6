#include "comm/output_queue.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "runtime/error.h"

namespace ringgrad::comm {
namespace {

// A pipe that can be written to takes as much without blocking (pipe(7)).
constexpr std::size_t kChunk = 4096;

}  // namespace

void OutputQueue::put(const std::string& line) {
  if (text_.size() >= kBytes && stalled()) {
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
    pollfd file{descriptor_, POLLOUT, 0};
    if (poll(&file, 1, 0) <= 0) {
      return;
    }
    const ssize_t wrote =
        write(descriptor_, text_.data() + written_, std::min(kChunk, text_.size() - written_));
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
      text_ = concat("ringgrad launch: ", left_out_, " lines left out, which nobody took\n");
      left_out_ = 0;
    }
  }
}

void OutputQueue::drain(std::chrono::milliseconds patience) {
  while (!text_.empty() && !stalled(patience)) {
    pollfd file{descriptor_, POLLOUT, 0};
    poll(&file, 1, 100);
    flush();
  }
}

}  // namespace ringgrad::comm
