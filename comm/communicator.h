// What data-parallel training asks of a group of ranks. Every rank calls the same collectives in
// the same order; each returns at once with a Work.
#pragma once

#include <memory>

#include "comm/ring.h"
#include "comm/transport.h"
#include "runtime/context.h"
#include "runtime/dtype.h"

namespace ringgrad::comm {

// A collective under way.
class Work {
 public:
  Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  virtual ~Work() = default;
  // What is put on `stream` from now on sees the result. Throws the Error that the collective
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
  // In place, on device memory that is ready on `stream`.
  virtual std::unique_ptr<Work> all_reduce(void* data, std::int64_t count, DType dtype, ReduceOp op,
                                           const Stream& stream) = 0;
  virtual std::unique_ptr<Work> broadcast(void* data, std::size_t bytes, int root,
                                          const Stream& stream) = 0;
};

// World size 1: the identity, no threads.
std::unique_ptr<Communicator> make_single_communicator();

// Our ring over a transport: a thread of its own runs the collectives in order. Memory that the
// host cannot reach is staged through pinned memory.
std::unique_ptr<Communicator> make_ring_communicator(std::unique_ptr<Transport> transport);

}  // namespace ringgrad::comm
