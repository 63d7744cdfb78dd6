// Text on its way to standard output or standard error, which may take it slowly, or not at all: a
// pager that nobody scrolls, a terminal that was stopped. Nobody waits for it here.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "comm/socket.h"

namespace ringgrad::comm {

class OutputQueue {
 public:
  explicit OutputQueue(int descriptor);

  int descriptor() const { return own_.valid() ? own_.descriptor() : given_; }
  bool empty() const { return text_.empty(); }
  // A whole line. Left out, and counted, where there is no room for it and no hope.
  void put(const std::string& line);
  // Who has more to put should let its source wait.
  bool full() const { return text_.size() >= kBytes && !hurried_ && !stalled(); }
  // Writes what is taken at once.
  void flush();
  // From now on no source waits, whatever is lost.
  void hurry() { hurried_ = true; }
  // Whether it has waited for long in which nothing was taken.
  bool stalled() const {
    return !text_.empty() && std::chrono::steady_clock::now() - moved_at_ > kPatience;
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{1} << 20;
  static constexpr std::chrono::seconds kPatience{10};

  int given_;
  Socket own_;  // a description of our own of the same pipe or terminal, which never blocks
  std::string text_;
  std::size_t written_ = 0;  // of text_
  long left_out_ = 0;        // lines
  bool hurried_ = false;
  std::chrono::steady_clock::time_point moved_at_ = std::chrono::steady_clock::now();
};

// Standard output and standard error, which may be the same file: then lines of one must not end up
// within those of the other.
class OutputStreams {
 public:
  OutputStreams();

  OutputQueue& out() { return out_; }
  OutputQueue& err() { return same_ ? out_ : err_; }
  std::array<OutputQueue*, 2> all() { return {&out_, &err_}; }

  // Writes what is taken at once. hurry: from now on no source waits.
  void flush(bool hurry);
  // Writes on until all is taken, or nothing for long; for a second at most once `hurry` says so.
  void drain(const std::function<bool()>& hurry);

 private:
  OutputQueue out_, err_;
  bool same_ = false;
};

}  // namespace ringgrad::comm
