// What a rank prints, put out in whole lines with a prefix that says whose they are.
#pragma once

#include <string>

#include "comm/output_queue.h"
#include "comm/socket.h"

namespace ringgrad::comm {

class LineWriter {
 public:
  // Reads from `pipe`, whose other end the rank holds; puts lines into `to`, and without the prefix
  // into the file `log` (-1: nowhere). Neither is closed.
  LineWriter(Socket pipe, OutputQueue& to, std::string prefix, int log)
      : pipe_(std::move(pipe)), to_(to), prefix_(std::move(prefix)), log_(log) {}

  int descriptor() const { return pipe_.descriptor(); }
  bool open() const { return pipe_.valid(); }
  // Whether there is room for what it would read.
  bool ready() const { return open() && !to_.full(); }
  // Takes some of what is there, without waiting; closes itself at the end. False if nothing was
  // there.
  bool read_on();
  // Puts out what is left of a last line, and closes.
  void finish();

 private:
  void take(const char* text, std::size_t bytes);
  void put();

  Socket pipe_;
  OutputQueue& to_;
  std::string prefix_;
  int log_;
  std::string line_;
};

}  // namespace ringgrad::comm
