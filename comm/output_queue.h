// Text on its way to standard output or standard error, which may take it slowly, or not at all: a
// pager that nobody scrolls, a terminal that was stopped. Nobody waits for it here.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace ringgrad::comm {

class OutputQueue {
 public:
  explicit OutputQueue(int descriptor) : descriptor_(descriptor) {}

  int descriptor() const { return descriptor_; }
  bool empty() const { return text_.empty(); }
  // A whole line. Left out, and counted, where nothing has been taken for kPatience.
  void put(const std::string& line);
  // Who has more to put should let its source wait, as long as there is hope.
  bool full() const { return text_.size() >= kBytes && !stalled(); }
  // Writes what is taken at once.
  void flush();
  // Writes on until all is taken, or nothing for `patience`.
  void drain(std::chrono::milliseconds patience = kPatience);

 private:
  static constexpr std::size_t kBytes = std::size_t{1} << 20;
  static constexpr std::chrono::milliseconds kPatience{10'000};

  bool stalled(std::chrono::milliseconds patience = kPatience) const {
    return !text_.empty() && std::chrono::steady_clock::now() - moved_at_ > patience;
  }

  int descriptor_;
  std::string text_;
  std::size_t written_ = 0;  // of text_
  long left_out_ = 0;        // lines
  std::chrono::steady_clock::time_point moved_at_ = std::chrono::steady_clock::now();
};

}  // namespace ringgrad::comm
