// The collectives on host memory, blocking, run by one thread of each rank: what a communicator is
// made of. Two implementations: the ring over messages, and direct access where ranks share memory.
// Their results have the same bits (reduction.h).
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "comm/failure.h"
#include "comm/reduction.h"
#include "comm/shared_segment.h"
#include "comm/transport.h"
#include "runtime/dtype.h"

namespace ringgrad::comm {

// What a rank is about to do. Ranks tell each other, so that those that disagree fail instead of
// mixing data up.
struct Call {
  enum class Kind : std::int32_t { all_reduce, broadcast, all_gather, reduce_scatter, barrier };
  Kind kind = Kind::barrier;
  ReduceOp op = ReduceOp::sum;
  DType dtype = DType::u8;
  std::int32_t root = 0;
  std::int64_t count = 0;     // elements of the whole buffer; of all_gather: of one rank's part
  std::int64_t sequence = 0;  // the how-manieth collective of this communicator

  bool operator==(const Call& other) const;
  // "all_reduce sum f32, 12 elements (collective 5)"
  std::string text() const;
};

// "the ranks disagree: rank 0 calls …, rank 1 calls …"
std::string disagreement(int a, const Call& call_a, int b, const Call& call_b);

class Collectives {
 public:
  Collectives(std::shared_ptr<Failure> failure, std::chrono::milliseconds timeout)
      : failure_(std::move(failure)), timeout_(timeout) {}
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;
  virtual ~Collectives() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Each throws Error: what a peer did, that nothing moved for the timeout (and who is missing), or
  // the cause of an earlier failure.
  virtual void all_reduce(const Call& call, void* data /* (count) */) = 0;
  virtual void broadcast(const Call& call, void* data /* (count) */) = 0;
  virtual void all_gather(const Call& call, const void* in /* (count) */,
                          void* out /* (R,count) */) = 0;
  virtual void reduce_scatter(const Call& call, const void* in /* (R,count/R) */,
                              void* out /* (count/R) */) = 0;
  virtual void barrier(const Call& call) = 0;

  // Memory in which all_reduce and broadcast need no copy, where there is such; else null.
  virtual std::shared_ptr<void> allocate(std::size_t) { return nullptr; }

  Failure& failure() const { return *failure_; }
  std::chrono::milliseconds timeout() const { return timeout_; }

  // The sequence number of the last collective that this rank began; may be read by anybody.
  using Begun = std::shared_ptr<const std::atomic<std::int64_t>>;
  Begun begun() const { return begun_; }
  // Who knows how far the other ranks are: the ranks that have not begun a collective, as text.
  using Lagging = std::function<std::string(std::int64_t sequence)>;
  void ask_for_lagging(Lagging lagging) { lagging_ = std::move(lagging); }

 protected:
  void begin(const Call& call) { *begun_ = call.sequence; }
  // What a rank says that waited `long_enough` in vain.
  std::string waited(const Call& call, std::chrono::milliseconds long_enough,
                     const std::string& for_whom) const;
  // Empty where nobody knows, or the timeout is so short that what they know may be older.
  std::string lagging(const Call& call) const {
    return lagging_ && timeout_ > kKnown ? lagging_(call.sequence) : "";
  }

 private:
  static constexpr std::chrono::seconds kKnown{2};
  std::shared_ptr<Failure> failure_;
  std::chrono::milliseconds timeout_;
  std::shared_ptr<std::atomic<std::int64_t>> begun_ =
      std::make_shared<std::atomic<std::int64_t>>(0);
  Lagging lagging_;
};

std::unique_ptr<Collectives> make_ring_collectives(std::unique_ptr<Transport> transport,
                                                   std::shared_ptr<Failure> failure,
                                                   std::chrono::milliseconds timeout);
std::unique_ptr<Collectives> make_shared_collectives(SharedSegment segment,
                                                     std::shared_ptr<Failure> failure,
                                                     std::chrono::milliseconds timeout);

}  // namespace ringgrad::comm
