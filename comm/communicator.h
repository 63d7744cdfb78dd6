// What data-parallel training asks of a group of ranks. Every rank calls the same collectives in
// the same order; each returns at once with a Work. Ranks that disagree on what they call all fail
// with the same message; after a failure the communicator stays dead.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/failure.h"
#include "comm/reduction.h"
#include "runtime/context.h"
#include "runtime/dtype.h"

namespace ringgrad::comm {

class Collectives;

// A collective under way.
class Work {
 public:
  Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  virtual ~Work() = default;
  // What is put on `stream` from now on sees the result. Throws the Error that the communicator
  // failed with.
  virtual void wait(const Stream& stream) = 0;
};

class Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int local_rank() const { return rank(); }  // among the ranks of this host
  virtual std::string description() const = 0;       // "ring over shared memory"

  // Buffers lie in device memory and are ready on `stream`. `in` may be `out`; buffers that overlap
  // in part are an Error, as is an average of integers.
  // out (count) = the reduction of all ranks' in (count).
  virtual std::unique_ptr<Work> all_reduce(const void* in, void* out, std::int64_t count,
                                           DType dtype, ReduceOp op, const Stream& stream) = 0;
  // data (count) = the average of all ranks' data, in place, which travels as halves: scaled by a
  // power of two that the ranks agree on, so that no sum overflows and little of the small is lost.
  virtual std::unique_ptr<Work> all_reduce_as_half(float* data, std::int64_t count,
                                                   const Stream& stream) = 0;
  // data (bytes) of rank `root` to all.
  virtual std::unique_ptr<Work> broadcast(void* data, std::size_t bytes, int root,
                                          const Stream& stream) = 0;
  // out (R,count) = all ranks' in (count), in the order of ranks.
  virtual std::unique_ptr<Work> all_gather(const void* in, void* out, std::int64_t count,
                                           DType dtype, const Stream& stream) = 0;
  // out (count) = this rank's part of the reduction of all ranks' in (R,count).
  virtual std::unique_ptr<Work> reduce_scatter(const void* in, void* out, std::int64_t count,
                                               DType dtype, ReduceOp op, const Stream& stream) = 0;
  // Its wait returns when all ranks have called it.
  virtual std::unique_ptr<Work> barrier(const Stream& stream) = 0;

  std::unique_ptr<Work> all_reduce(void* data, std::int64_t count, DType dtype, ReduceOp op,
                                   const Stream& stream) {
    return all_reduce(data, data, count, dtype, op, stream);
  }

  // Host memory in which collectives need no copy (the ranks of the host share it); null where
  // there is no such. Zeros.
  virtual std::shared_ptr<void> allocate(std::size_t) { return nullptr; }

  // Ends all collectives, here and on the other ranks, with this cause (or an earlier one).
  virtual void abort(const std::string& cause) = 0;
};

// World size 1: the identity, no threads, no sockets.
std::unique_ptr<Communicator> make_single_communicator();

// Ranks as threads of this process. timeout: without progress in a collective.
std::vector<std::unique_ptr<Communicator>> make_thread_communicators(
    int size, std::chrono::milliseconds timeout);

// A thread of its own runs the collectives in order. Memory that the host cannot reach is staged
// through pinned memory. `membership` is let go after the last collective.
std::unique_ptr<Communicator> make_host_communicator(std::unique_ptr<Collectives> collectives,
                                                     int local_rank, std::string description,
                                                     std::shared_ptr<void> membership = nullptr);

}  // namespace ringgrad::comm
