// The first cause of a communicator's death. Ranks are out of step once a collective failed, so it
// stays dead: every handle on every rank fails with the same text.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>

#include "runtime/error.h"

namespace ringgrad::comm {

// Thrown for it: another rank was lost or failed, or the ranks disagree.
class PeerFailure : public Error {
 public:
  using Error::Error;
};

class Failure {
 public:
  // How a rank tells the others, where they do not share this object. It is to come back through
  // raise() with the cause that counts for all.
  using Report = std::function<void(const std::string& cause)>;

  void report_through(Report report);
  // Raises `cause`, or what the others agreed on before; returns the cause that counts.
  std::string fail(const std::string& cause);
  // The cause that counts; the first one stays.
  void raise(const std::string& cause);

  bool raised() const { return raised_.load(); }
  // Throws PeerFailure with the cause if there is one. Everybody who waits calls it now and then.
  void check() const;

 private:
  std::atomic<bool> raised_{false};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string cause_;
  Report report_;
};

}  // namespace ringgrad::comm
