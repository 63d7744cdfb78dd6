#include "comm/line_writer.h"

#include <unistd.h>

#include <cerrno>

namespace ringgrad::comm {
namespace {

constexpr std::size_t kLineBytes = 64 * 1024;  // a longer one is broken

// A full disk ends nothing.
void write_all(int descriptor, const std::string& text) {
  std::size_t at = 0;
  while (descriptor >= 0 && at < text.size()) {
    const ssize_t written = write(descriptor, text.data() + at, text.size() - at);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      return;
    }
    at += static_cast<std::size_t>(written);
  }
}

}  // namespace

bool LineWriter::read_on() {
  char chunk[16384];
  const ssize_t got = read(pipe_.descriptor(), chunk, sizeof chunk);
  if (got > 0) {
    take(chunk, static_cast<std::size_t>(got));
    return true;
  }
  if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    finish();
  }
  return false;
}

void LineWriter::finish() {
  if (!line_.empty()) {
    put();
  }
  pipe_ = Socket();
}

void LineWriter::take(const char* text, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) {
    if (text[i] == '\n') {
      put();
    } else {
      line_ += text[i];
      if (line_.size() >= kLineBytes) {
        put();
      }
    }
  }
}

// Put whole: lines of different ranks are never torn.
void LineWriter::put() {
  line_ += '\n';
  write_all(log_, line_);
  to_.put(prefix_ + line_);
  line_.clear();
}

}  // namespace ringgrad::comm
