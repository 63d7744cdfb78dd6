// The digest of a buffer. The words' digests are added by atomics: sums of integers do not depend
// on their order.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/operations.h"

namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE {
namespace {

// The bytes one by one, so that any address will do; a warp's reads still fall into a few lines.
__device__ std::uint64_t word_at(const HashBuffer<std::uint8_t>& a, Index at) {
  std::uint64_t word = 0;
  for (Index i = 0; i < 8 && at + i < a.bytes; ++i) {
    word |= static_cast<std::uint64_t>(a.x[at + i]) << (8 * i);
  }
  return word;
}

__global__ void hash_buffer_kernel(HashBuffer<std::uint8_t> a) {
  std::uint64_t sum = 0;
  for (Index i = grid_start(); i * 8 < a.bytes; i += grid_step()) {
    sum += hash_word(word_at(a, i * 8), static_cast<std::uint64_t>(i));
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    atomicAdd(reinterpret_cast<unsigned long long*>(a.digest),
              static_cast<unsigned long long>(sum));
  }
}

void hash_buffer(Context& context, const HashBuffer<std::uint8_t>& a) {
  context.device().fill_zero(a.digest, sizeof *a.digest, context.compute_stream().handle());
  launch(context, blocks_for((a.bytes + 7) / 8), kThreads, hash_buffer_kernel, a);
}

}  // namespace

void add_hash(OperationTable& table) {
  table.add<HashBuffer<std::uint8_t>, hash_buffer>();
}

}  // namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE
