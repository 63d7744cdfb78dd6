// The collective algorithms over any transport, on host memory.
#pragma once

#include <cstdint>

#include "comm/transport.h"
#include "runtime/dtype.h"

namespace ringgrad::comm {

enum class ReduceOp { sum, average, min, max };

const char* name_of(ReduceOp op);

// data (count) of every rank becomes the reduction over all ranks, in place: the same bits
// everywhere, that depend on inputs, count and world size alone. An average of integers is an
// Error.
void ring_all_reduce(Transport& transport, void* data, std::int64_t count, DType dtype,
                     ReduceOp op);
// data (bytes) of rank `root` to all.
void ring_broadcast(Transport& transport, void* data, std::size_t bytes, int root);

}  // namespace ringgrad::comm
