// Softmax cross-entropy and top-1..k accuracy. One block takes the whole batch: each thread walks
// rows of its own, and the block adds up in a fixed order, so the bits do not depend on scheduling.
#include <cmath>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/operations.h"

namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE {
namespace {

template <class Args>
__device__ bool counted(const Args& a, Index n) {
  return a.labels[n] != a.ignore_index && a.labels[n] >= 0 && a.labels[n] < a.classes;
}

// The number of counted samples, by the whole block.
template <class Args>
__device__ float counted_samples(const Args& a) {
  float count = 0;
  for (Index n = threadIdx.x; n < a.n; n += blockDim.x) {
    count += counted(a, n) ? 1.0F : 0.0F;
  }
  return block_sum(count);
}

__global__ void cross_entropy_forward_kernel(CrossEntropyForward<float> a) {
  const auto smoothing = static_cast<float>(a.smoothing);
  float total = 0;
  for (Index n = threadIdx.x; n < a.n; n += blockDim.x) {
    const float* row = a.logits + n * a.classes;
    float largest = row[0];
    for (Index c = 1; c < a.classes; ++c) {
      largest = row[c] > largest ? row[c] : largest;
    }
    float sum = 0;
    float sum_logits = 0;
    for (Index c = 0; c < a.classes; ++c) {
      sum += expf(row[c] - largest);
      sum_logits += row[c];
    }
    const float log_sum = largest + logf(sum);
    a.log_sum[n] = log_sum;
    if (counted(a, n)) {
      const float own = log_sum - row[a.labels[n]];
      const float mean = log_sum - sum_logits / static_cast<float>(a.classes);
      total += smoothing > 0 ? (1 - smoothing) * own + smoothing * mean : own;
    } else if (a.labels[n] != a.ignore_index && atomicCAS(&a.status->code, 0, 1) == 0) {
      a.status->index = n;
      a.status->value = a.labels[n];
    }
  }
  const float count = counted_samples(a);
  const float loss = block_sum(total) / count;
  if (threadIdx.x == 0) {
    *a.loss = loss;
  }
}

__global__ void cross_entropy_backward_kernel(CrossEntropyBackward<float> a) {
  const float scale = *a.dloss / counted_samples(a);
  const auto smoothing = static_cast<float>(a.smoothing);
  for (Index i = threadIdx.x; i < a.n * a.classes; i += blockDim.x) {
    const Index n = i / a.classes;
    const float p = expf(a.logits[i] - a.log_sum[n]);
    const float target = smoothing / static_cast<float>(a.classes) +
                         (i % a.classes == a.labels[n] ? 1 - smoothing : 0.0F);
    a.dlogits[i] = counted(a, n) ? scale * (p - target) : 0.0F;
  }
}

__global__ void correct_in_top_k_kernel(CorrectInTopK<float> a) {
  float correct = 0;
  for (Index n = threadIdx.x; n < a.n; n += blockDim.x) {
    const Index label = a.labels[n];
    if (label < 0 || label >= a.classes) {
      continue;
    }
    const float* row = a.logits + n * a.classes;
    const float own = row[label];
    Index before = 0;
    for (Index c = 0; c < a.classes; ++c) {
      const bool nan = row[c] != row[c];
      before += nan || row[c] > own || (row[c] == own && c < label) ? 1 : 0;
    }
    correct += own == own && before < a.k ? 1.0F : 0.0F;
  }
  const float sum = block_sum(correct);
  if (threadIdx.x == 0) {
    *a.count = static_cast<std::int64_t>(sum);
  }
}

void cross_entropy_forward(Context& context, const CrossEntropyForward<float>& a) {
  launch(context, 1, kThreads, cross_entropy_forward_kernel, a);
}

void cross_entropy_backward(Context& context, const CrossEntropyBackward<float>& a) {
  launch(context, 1, kThreads, cross_entropy_backward_kernel, a);
}

void correct_in_top_k(Context& context, const CorrectInTopK<float>& a) {
  launch(context, 1, kThreads, correct_in_top_k_kernel, a);
}

}  // namespace

void add_cross_entropy(OperationTable& table) {
  table.add<CrossEntropyForward<float>, cross_entropy_forward>();
  table.add<CrossEntropyBackward<float>, cross_entropy_backward>();
  table.add<CorrectInTopK<float>, correct_in_top_k>();
}

}  // namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE
