// Softmax cross-entropy and top-1..k accuracy: a warp for each row, whose lanes take every 32nd
// class. What there is of all rows is added up by one block in a fixed order, so the bits do not
// depend on scheduling.
#include <cmath>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/operations.h"

namespace ringgrad::kernels::RINGGRAD_CUDA_NAMESPACE {
namespace {

template <class Args>
__device__ bool counted(const Args& a, Index n) {
  return a.labels[n] != a.ignore_index && a.labels[n] >= 0 && a.labels[n] < a.classes;
}

constexpr unsigned kWarps = kThreads / kWarp;

// The rows of a warp of this grid: for (Index n = first_row(); n < a.n; n += row_step()).
__device__ Index first_row() {
  return static_cast<Index>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
}
__device__ Index row_step() {
  return static_cast<Index>(gridDim.x) * kWarps;
}
unsigned blocks_for_rows(Index n) {
  return blocks_for(n * static_cast<Index>(kWarp));
}

// losses (N): of each row, 0 where it does not count.
__global__ void row_losses_kernel(CrossEntropyForward<float> a, float* losses) {
  const auto smoothing = static_cast<float>(a.smoothing);
  const Index lane = threadIdx.x % kWarp;
  for (Index n = first_row(); n < a.n; n += row_step()) {
    const float* row = a.logits + n * a.classes;
    float largest = row[0];
    for (Index c = lane; c < a.classes; c += kWarp) {
      largest = row[c] > largest || row[c] != row[c] ? row[c] : largest;
    }
    largest = warp_maximum(largest);
    float sum = 0;
    float sum_logits = 0;
    for (Index c = lane; c < a.classes; c += kWarp) {
      sum += expf(row[c] - largest);
      sum_logits += row[c];
    }
    const float log_sum = largest + logf(warp_sum(sum));
    const float mean = log_sum - warp_sum(sum_logits) / static_cast<float>(a.classes);
    if (lane == 0) {
      a.log_sum[n] = log_sum;
      losses[n] = 0;
      if (counted(a, n)) {
        const float own = log_sum - row[a.labels[n]];
        losses[n] = smoothing > 0 ? (1 - smoothing) * own + smoothing * mean : own;
      }
    }
  }
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

__global__ void mean_loss_kernel(CrossEntropyForward<float> a, const float* losses) {
  float total = 0;
  Index first_bad = a.n;  // label
  for (Index n = threadIdx.x; n < a.n; n += blockDim.x) {
    total += losses[n];
    const bool bad = !counted(a, n) && a.labels[n] != a.ignore_index;
    first_bad = bad && n < first_bad ? n : first_bad;
  }
  first_bad = block_combined(first_bad, Minimum<Index>());
  if (threadIdx.x == 0 && first_bad < a.n && a.status->code == 0) {
    a.status->code = 1;
    a.status->index = first_bad;
    a.status->value = a.labels[first_bad];
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
  for (Index i = grid_start(); i < a.n * a.classes; i += grid_step()) {
    const Index n = i / a.classes;
    const float p = expf(a.logits[i] - a.log_sum[n]);
    const float target = smoothing / static_cast<float>(a.classes) +
                         (i % a.classes == a.labels[n] ? 1 - smoothing : 0.0F);
    a.dlogits[i] = counted(a, n) ? scale * (p - target) : 0.0F;
  }
}

// One block.
__global__ void correct_in_top_k_kernel(CorrectInTopK<float> a) {
  const Index lane = threadIdx.x % kWarp;
  int correct = 0;
  for (Index n = threadIdx.x / kWarp; n < a.n; n += kWarps) {
    const Index label = a.labels[n];
    if (label < 0 || label >= a.classes) {
      continue;
    }
    const float* row = a.logits + n * a.classes;
    const float own = row[label];
    int before = 0;
    for (Index c = lane; c < a.classes; c += kWarp) {
      const bool nan = row[c] != row[c];
      before += nan || row[c] > own || (row[c] == own && c < label) ? 1 : 0;
    }
    before = warp_sum(before);
    correct += lane == 0 && own == own && before < a.k ? 1 : 0;
  }
  const int sum = block_sum(correct);
  if (threadIdx.x == 0) {
    *a.count = sum;
  }
}

void cross_entropy_forward(Context& context, const CrossEntropyForward<float>& a) {
  const Buffer losses =
      Buffer::on_device(context, sizeof(float) * static_cast<std::size_t>(std::max<Index>(1, a.n)));
  auto* of_rows = static_cast<float*>(losses.data());
  launch(context, blocks_for_rows(a.n), kThreads, row_losses_kernel, a, of_rows);
  launch(context, 1, kThreads, mean_loss_kernel, a, of_rows);
}

void cross_entropy_backward(Context& context, const CrossEntropyBackward<float>& a) {
  launch(context, blocks_for(a.n * a.classes), kThreads, cross_entropy_backward_kernel, a);
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
