#include "training/reporter.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/error.h"
#include "runtime/file.h"
#include "runtime/json_text.h"

namespace ringgrad::training {
namespace {

using Clock = std::chrono::steady_clock;

std::FILE* append_to(const std::filesystem::path& path) {
  std::FILE* file = std::fopen(path.c_str(), "a");
  RINGGRAD_CHECK(file != nullptr, "cannot write ", system_error(path, errno));
  return file;
}

std::string duration(double seconds) {
  if (!std::isfinite(seconds) || seconds > 359999) {
    return "--:--";
  }
  const long whole = std::lround(seconds);
  char text[32];
  if (whole >= 3600) {
    std::snprintf(text, sizeof text, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
  } else {
    std::snprintf(text, sizeof text, "%02ld:%02ld", whole / 60, whole % 60);
  }
  return text;
}

}  // namespace

std::string progress_text(const Progress& p) {
  constexpr int kWidth = 24;
  const double share = std::clamp(
      static_cast<double>(p.samples) / static_cast<double>(std::max<std::int64_t>(1, p.of_samples)),
      0.0, 1.0);
  const int filled = static_cast<int>(share * kWidth);
  const double left = static_cast<double>(p.of_samples - p.samples) / p.images_per_second;
  char text[256];
  std::snprintf(text, sizeof text,
                "%s %d/%d [%s%s] %3.0f%%  %.0f images/s  %s left  loss %.4f  accuracy %.4f",
                p.phase, p.epoch + 1, p.epochs,
                std::string(static_cast<std::size_t>(filled), '#').c_str(),
                std::string(static_cast<std::size_t>(kWidth - filled), '.').c_str(), 100 * share,
                p.images_per_second, duration(left).c_str(), p.loss, p.accuracy);
  return text;
}

Reporter::Reporter(const RunFolder& folder, bool quiet)
    : folder_(folder), quiet_(quiet), terminal_(!quiet && isatty(STDOUT_FILENO) == 1) {
  if (!quiet) {
    log_ = append_to(folder.log());
    metrics_ = append_to(folder.metrics());
  }
}

Reporter::~Reporter() {
  clear_bar();
  for (std::FILE* file : {log_, metrics_}) {
    if (file != nullptr) {
      std::fclose(file);
    }
  }
}

void Reporter::clear_bar() {
  if (bar_shown_) {
    print("\r\033[K");
    bar_shown_ = false;
  }
}

// A reader that went away is no reason to stop: the log file has everything.
void Reporter::print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void Reporter::log_line(const std::string& text) {
  if (!quiet_) {
    std::fprintf(log_, "%s\n", text.c_str());
    std::fflush(log_);
  }
}

void Reporter::line(const std::string& text) {
  if (quiet_) {
    return;
  }
  log_line(text);
  clear_bar();
  print(text + "\n");
}

void Reporter::plain_line(const std::string& text) {
  if (!terminal_) {
    line(text);
  } else {
    log_line(text);
  }
}

void Reporter::progress(const Progress& progress) {
  if (quiet_) {
    return;
  }
  const Clock::time_point now = Clock::now();
  if (terminal_ && now - last_bar_ > std::chrono::milliseconds(100)) {
    last_bar_ = now;
    print("\r\033[K" + progress_text(progress));
    bar_shown_ = true;
  }
  if (now - last_file_ > std::chrono::seconds(1)) {
    last_file_ = now;
    // Replaced whole but not flushed to disk: it is for onlookers.
    const std::filesystem::path temporary = folder_.progress().string() + ".new";
    std::ofstream(temporary) << progress_text(progress) << '\n';
    std::error_code ignored;
    std::filesystem::rename(temporary, folder_.progress(), ignored);
  }
}

void Reporter::metrics(const nlohmann::json& object) {
  if (!quiet_) {
    std::fprintf(metrics_, "%s\n", json_text(object).c_str());
    std::fflush(metrics_);
  }
}

}  // namespace ringgrad::training
