// The ring all-reduce.
//
// R ranks stand in a ring; each talks to its right neighbour only. The data is cut into R chunks.
// First, reduce-scatter: in R-1 steps partial sums travel once round the ring, each rank adding its
// own part, until every rank owns one finished chunk. For R = 3, with a b c the chunks of ranks 0,
// 1 and 2:
//
//             rank 0          rank 1          rank 2
//   start     a0 b0 c0        a1 b1 c1        a2 b2 c2
//   step 0    sends a0 ──▶    sends b1 ──▶    sends c2 ──▶ (to rank 0)
//             c2+c0           a0+a1           b1+b2
//   step 1    sends c2+c0 ─▶  sends a0+a1 ─▶  sends b1+b2 ─▶
//             b1+b2+b0        c2+c0+c1        a0+a1+a2
//
// Then, all-gather: in R-1 more steps the finished chunks travel round and overwrite.
//
//   step 2    sends b ──▶     sends c ──▶     sends a ──▶
//   step 3    sends a ──▶     sends b ──▶     sends c ──▶          all ranks hold a b c
//
// Each rank sends 2 (R-1)/R of the data whatever R is: the least possible. Chunk i is always added
// in the order i, i+1, …, i+R-1 (mod R), so the bits depend on nothing but inputs, count and world
// size. Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
// workstations", 2009.
#include "comm/ring.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/error.h"

namespace ringgrad::comm {
namespace {

template <class T>
void combine(T* mine, const T* arrived, std::int64_t n, ReduceOp op) {
  for (std::int64_t i = 0; i < n; ++i) {
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::average:
        mine[i] = static_cast<T>(arrived[i] + mine[i]);
        break;
      case ReduceOp::min:
        mine[i] = std::min(arrived[i], mine[i]);
        break;
      case ReduceOp::max:
        mine[i] = std::max(arrived[i], mine[i]);
        break;
    }
  }
}

template <class T>
void all_reduce(Transport& transport, T* data, std::int64_t count, ReduceOp op) {
  const int ranks = transport.size();
  const int rank = transport.rank();
  const int right = (rank + 1) % ranks;
  const int left = (rank + ranks - 1) % ranks;
  const auto begin_of = [&](int chunk) { return count * chunk / ranks; };
  const auto chunk_at = [&](int step) { return (rank - step + 2 * ranks) % ranks; };
  const auto bytes_of = [&](int chunk) {
    return sizeof(T) * static_cast<std::size_t>(begin_of(chunk + 1) - begin_of(chunk));
  };
  std::vector<T> arrived(static_cast<std::size_t>(count / ranks + 1));
  for (int step = 0; step < ranks - 1; ++step) {
    const int out = chunk_at(step);
    const int in = chunk_at(step + 1);
    transport.send(right, data + begin_of(out), bytes_of(out));
    transport.receive(left, arrived.data(), bytes_of(in));
    combine(data + begin_of(in), arrived.data(), begin_of(in + 1) - begin_of(in), op);
  }
  if (op == ReduceOp::average) {
    const int own = chunk_at(ranks - 1);
    for (std::int64_t i = begin_of(own); i < begin_of(own + 1); ++i) {
      data[i] = static_cast<T>(data[i] / static_cast<T>(ranks));
    }
  }
  for (int step = ranks - 1; step < 2 * (ranks - 1); ++step) {
    const int out = chunk_at(step);
    const int in = chunk_at(step + 1);
    transport.send(right, data + begin_of(out), bytes_of(out));
    transport.receive(left, data + begin_of(in), bytes_of(in));
  }
}

}  // namespace

const char* name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::average:
      return "average";
    case ReduceOp::min:
      return "min";
    case ReduceOp::max:
      return "max";
  }
  return "?";
}

void ring_all_reduce(Transport& transport, void* data, std::int64_t count, DType dtype,
                     ReduceOp op) {
  switch (dtype) {
    case DType::f32:
      return all_reduce(transport, static_cast<float*>(data), count, op);
    case DType::f64:
      return all_reduce(transport, static_cast<double*>(data), count, op);
    case DType::i64:
      RINGGRAD_CHECK(op != ReduceOp::average, "all_reduce: an average of integers is not defined");
      return all_reduce(transport, static_cast<std::int64_t*>(data), count, op);
    default:
      throw Error(concat("all_reduce: no reduction of ", ringgrad::name_of(dtype)));
  }
}

void ring_broadcast(Transport& transport, void* data, std::size_t bytes, int root) {
  const int ranks = transport.size();
  const int right = (transport.rank() + 1) % ranks;
  if (ranks == 1) {
    return;
  }
  if (transport.rank() != root) {
    transport.receive((transport.rank() + ranks - 1) % ranks, data, bytes);
  }
  if (right != root) {
    transport.send(right, data, bytes);
  }
}

}  // namespace ringgrad::comm
