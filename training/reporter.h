// Where a run's output goes: every line to its log file and to standard output; on a terminal, a
// progress bar below them. A terminal that goes away costs the run nothing.
#pragma once

#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "training/run_folder.h"

namespace ringgrad::training {

// Where an epoch stands.
struct Progress {
  const char* phase = "train";  // or "test"
  int epoch = 0, epochs = 1;
  std::int64_t samples = 0, of_samples = 1;
  double loss = 0;
  double accuracy = 0;
  double images_per_second = 0;
};

class Reporter {
 public:
  // Lines are appended to the folder's files. `quiet`: a rank other than 0, which says nothing.
  Reporter(const RunFolder& folder, bool quiet);
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;
  ~Reporter();

  // A line for everybody.
  void line(const std::string& text);
  // A line for the log alone.
  void log_line(const std::string& text);
  // A line for the log and for output that is no terminal: what the progress bar shows there.
  void plain_line(const std::string& text);
  // At most ten times a second to the terminal, once a second to progress.txt.
  void progress(const Progress& progress);
  void metrics(const nlohmann::json& object);

 private:
  void clear_bar();
  void print(const std::string& text);

  const RunFolder& folder_;  // must outlive the reporter
  bool quiet_;
  bool terminal_;
  bool bar_shown_ = false;
  std::FILE* log_ = nullptr;
  std::FILE* metrics_ = nullptr;
  std::chrono::steady_clock::time_point last_bar_{};
  std::chrono::steady_clock::time_point last_file_{};
};

// "[#####-----] 50% epoch 1/10 …" without a terminal's control characters.
std::string progress_text(const Progress& progress);

}  // namespace ringgrad::training
