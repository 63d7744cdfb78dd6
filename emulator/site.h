// Where in the source something was called, for reports.
#pragma once

namespace emulator {

struct Site {
  const char* file;
  int line;

  // As the default of a last parameter: the caller's.
  static constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
  friend bool operator==(const Site& a, const Site& b) {
    return a.line == b.line && a.file == b.file;
  }
};

}  // namespace emulator
