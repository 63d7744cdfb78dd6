#include "comm/failure.h"

#include "runtime/deadline.h"

namespace ringgrad::comm {
namespace {

// How long the agreed cause may take to come back; a rank that has lost the others goes on alone.
constexpr std::chrono::seconds kAgreement{3};

}  // namespace

void Failure::report_through(Report report) {
  const std::lock_guard<std::mutex> lock(mutex_);
  report_ = std::move(report);
}

std::string Failure::fail(const std::string& cause) {
  Report report;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    report = report_;
  }
  if (report && !raised()) {
    report(cause);
    std::unique_lock<std::mutex> lock(mutex_);
    Deadline(kAgreement).wait(changed_, lock, [&] { return raised(); });
  }
  raise(cause);
  const std::lock_guard<std::mutex> lock(mutex_);
  return cause_;
}

void Failure::raise(const std::string& cause) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!raised()) {
    cause_ = cause;
    raised_ = true;
  }
  changed_.notify_all();
}

void Failure::check() const {
  if (raised()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    throw PeerFailure(cause_);
  }
}

}  // namespace ringgrad::comm
