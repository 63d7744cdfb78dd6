// The operations: the contract that every backend fills, and that tests hold it to.
//
// Each struct is one operation on raw device memory; run(context, Operation<T>{…}) puts it on the
// replica's compute stream. Shapes are written behind each pointer. The letters mean the same
// everywhere:
//   N images, H×W their size, C channels; K filters of R×S; P×Q the size of the output.
// Images are NHWC, filters KRSC, always dense. T is float or double unless said otherwise. Output
// and input must not overlap unless an operation says "in place". Whoever builds the struct has
// checked the shapes; kernels assume them. A count of 0 is an empty result, never an error.
#pragma once

#include <cstdint>

#include "kernels/operation_table.h"
#include "runtime/on_both_sides.h"

namespace ringgrad::kernels {

using Index = std::int64_t;

// Whether a weight gradient replaces what is in memory or is added to it.
enum class GradMode { overwrite, accumulate };

// ---- convolution and pooling
// --------------------------------------------------------------------------

struct Conv2dShape {
  Index n, h, w, c;  // input (N,H,W,C)
  Index k, r, s;     // filters (K,R,S,C)
  Index stride, pad;

  RINGGRAD_HOST_DEVICE Index p() const { return (h + 2 * pad - r) / stride + 1; }
  RINGGRAD_HOST_DEVICE Index q() const { return (w + 2 * pad - s) / stride + 1; }
};

// y[n,p,q,k] = bias[k] + sum over r,s,c of x[n, p*stride+r-pad, q*stride+s-pad, c] * w[k,r,s,c];
// outside is 0.
template <class T>
struct Conv2dForward {
  static constexpr const char* kName = "conv2d_forward";
  using Element = T;
  Conv2dShape shape;
  const T* x;     // (N,H,W,C)
  const T* w;     // (K,R,S,C)
  const T* bias;  // (K), or null
  T* y;           // (N,P,Q,K)
};

template <class T>
struct Conv2dBackwardData {
  static constexpr const char* kName = "conv2d_backward_data";
  using Element = T;
  Conv2dShape shape;
  const T* dy;  // (N,P,Q,K)
  const T* w;   // (K,R,S,C)
  T* dx;        // (N,H,W,C)
};

template <class T>
struct Conv2dBackwardWeights {
  static constexpr const char* kName = "conv2d_backward_weights";
  using Element = T;
  Conv2dShape shape;
  const T* x;   // (N,H,W,C)
  const T* dy;  // (N,P,Q,K)
  T* dw;        // (K,R,S,C)
  T* dbias;     // (K), or null
  GradMode mode;
};

struct Pool2dShape {
  Index n, h, w, c;
  Index kernel, stride, pad;  // kernel*kernel <= 255, pad <= kernel/2

  RINGGRAD_HOST_DEVICE Index p() const { return (h + 2 * pad - kernel) / stride + 1; }
  RINGGRAD_HOST_DEVICE Index q() const { return (w + 2 * pad - kernel) / stride + 1; }
};

// The maximum of each window; padding never wins. Ties go to the first in row-major order, NaN wins
// over everything. `tap` keeps which element of the window won (row*kernel + column). With `relu`,
// y = max(0, maximum) and tap is 255 where that cut the value off, so that no gradient passes: the
// same values and gradients as ReLU before the pooling, for a quarter of the work.
template <class T>
struct MaxPool2dForward {
  static constexpr const char* kName = "max_pool2d_forward";
  using Element = T;
  Pool2dShape shape;
  bool relu;
  const T* x;         // (N,H,W,C)
  T* y;               // (N,P,Q,C)
  std::uint8_t* tap;  // (N,P,Q,C)
};

template <class T>
struct MaxPool2dBackward {
  static constexpr const char* kName = "max_pool2d_backward";
  using Element = T;
  Pool2dShape shape;
  const T* dy;              // (N,P,Q,C)
  const std::uint8_t* tap;  // (N,P,Q,C)
  T* dx;                    // (N,H,W,C)
};

template <class T>
struct GlobalAvgPoolForward {
  static constexpr const char* kName = "global_avg_pool_forward";
  using Element = T;
  Index n, hw, c;
  const T* x;  // (N,H*W,C)
  T* y;        // (N,C)
};

template <class T>
struct GlobalAvgPoolBackward {
  static constexpr const char* kName = "global_avg_pool_backward";
  using Element = T;
  Index n, hw, c;
  const T* dy;  // (N,C)
  T* dx;        // (N,H*W,C)
};

// (N,H*W,C) to (N,C,H*W): what flatten emits, so that linear weights interchange with PyTorch. The
// same operation with hw and c exchanged is its inverse.
template <class T>
struct TransposeImages {
  static constexpr const char* kName = "transpose_images";
  using Element = T;
  Index n, hw, c;
  const T* x;  // (N,H*W,C)
  T* y;        // (N,C,H*W)
};

// ---- linear
// -------------------------------------------------------------------------------------------

// y = x w^T + bias.
template <class T>
struct LinearForward {
  static constexpr const char* kName = "linear_forward";
  using Element = T;
  Index n, in, out;
  const T* x;     // (N,IN)
  const T* w;     // (OUT,IN)
  const T* bias;  // (OUT), or null
  T* y;           // (N,OUT)
};

template <class T>
struct LinearBackwardData {
  static constexpr const char* kName = "linear_backward_data";
  using Element = T;
  Index n, in, out;
  const T* dy;  // (N,OUT)
  const T* w;   // (OUT,IN)
  T* dx;        // (N,IN)
};

template <class T>
struct LinearBackwardWeights {
  static constexpr const char* kName = "linear_backward_weights";
  using Element = T;
  Index n, in, out;
  const T* x;   // (N,IN)
  const T* dy;  // (N,OUT)
  T* dw;        // (OUT,IN)
  T* dbias;     // (OUT), or null
  GradMode mode;
};

// ---- batch normalisation, fused with residual add and ReLU
// --------------------------------------------

// Over the M = N*H*W values of each channel: y = f((x - mean) * inv_std * gamma + beta + residual),
// with f = ReLU or nothing, inv_std = 1/sqrt(biased variance + eps). M >= 2, or M = 0: then nothing
// changes. running = (1 - momentum) * running + momentum * (mean | unbiased variance). Source:
// Ioffe and Szegedy, 2015; conventions of torch.nn.BatchNorm2d.
template <class T>
struct BatchNormForward {
  static constexpr const char* kName = "batch_norm_forward";
  using Element = T;
  Index m, c;
  bool relu;
  T eps, momentum;
  const T* x;         // (M,C)
  const T* gamma;     // (C)
  const T* beta;      // (C)
  const T* residual;  // (M,C), or null
  T* running_mean;    // (C), updated
  T* running_var;     // (C), updated
  T* mean;            // (C), kept for backward
  T* inv_std;         // (C), kept for backward
  T* y;               // (M,C)
};

// The same map with the running statistics.
template <class T>
struct BatchNormInference {
  static constexpr const char* kName = "batch_norm_inference";
  using Element = T;
  Index m, c;
  bool relu;
  T eps;
  const T* x;             // (M,C)
  const T* gamma;         // (C)
  const T* beta;          // (C)
  const T* residual;      // (M,C), or null
  const T* running_mean;  // (C)
  const T* running_var;   // (C)
  T* y;                   // (M,C)
};

template <class T>
struct BatchNormBackward {
  static constexpr const char* kName = "batch_norm_backward";
  using Element = T;
  Index m, c;
  const T* x;        // (M,C)
  const T* y;        // (M,C) with ReLU: dy counts where y > 0; null without
  const T* dy;       // (M,C)
  const T* gamma;    // (C)
  const T* mean;     // (C)
  const T* inv_std;  // (C)
  T* dx;             // (M,C)
  T* dresidual;      // (M,C), or null
  T* dgamma;         // (C)
  T* dbeta;          // (C)
  GradMode mode;     // of dgamma and dbeta
};

// Both directions in two halves, for statistics over the rows of several replicas: the sums of
// one's own rows; then, with the sums of all of them added up, the rest.
template <class T>
struct BatchNormSums {
  static constexpr const char* kName = "batch_norm_sums";
  using Element = T;
  Index m, c;
  const T* x;             // (M,C)
  const T* running_mean;  // (C): what x is taken relative to, so that little cancels
  double* sums;           // (2C+1): of x - running_mean, of its squares, and M
};

template <class T>
struct BatchNormForwardFromSums : BatchNormForward<T> {
  static constexpr const char* kName = "batch_norm_forward_from_sums";
  const double* sums;  // (2C+1): BatchNormSums of all replicas, with the same running_mean
};

template <class T>
struct BatchNormGradientSums {
  static constexpr const char* kName = "batch_norm_gradient_sums";
  using Element = T;
  Index m, c;
  const T* x;     // (M,C)
  const T* y;     // (M,C) with ReLU: dy counts where y > 0; null without
  const T* dy;    // (M,C)
  const T* mean;  // (C)
  double* sums;   // (2C): of dy, and of dy * (x - mean)
};

// dgamma and dbeta are those of one's own rows; dx takes all replicas' into account.
template <class T>
struct BatchNormBackwardFromSums : BatchNormBackward<T> {
  static constexpr const char* kName = "batch_norm_backward_from_sums";
  const double* own;   // (2C): BatchNormGradientSums
  const double* all;   // (2C): the same of all replicas
  const double* rows;  // (1): of all replicas
};

// ---- element by element
// -------------------------------------------------------------------------------

// y = max(x, 0); NaN stays NaN. In place allowed.
template <class T>
struct ReluForward {
  static constexpr const char* kName = "relu_forward";
  using Element = T;
  Index n;
  const T* x;  // (n)
  T* y;        // (n)
};

// dx = dy where y > 0, else 0. In place (dx = dy) allowed.
template <class T>
struct ReluBackward {
  static constexpr const char* kName = "relu_backward";
  using Element = T;
  Index n;
  const T* y;   // (n)
  const T* dy;  // (n)
  T* dx;        // (n)
};

// y = a + b. In place (y = a) allowed.
template <class T>
struct Add {
  static constexpr const char* kName = "add";
  using Element = T;
  Index n;
  const T* a;  // (n)
  const T* b;  // (n)
  T* y;        // (n)
};

// A byte image as the network reads it: y = (x / 255 - mean[c]) / stddev[c]. C <= 4.
template <class T>
struct ImageToFloat {
  static constexpr const char* kName = "image_to_float";
  using Element = T;
  Index pixels, c;
  float mean[4], stddev[4];
  const std::uint8_t* x;  // (pixels,C)
  T* y;                   // (pixels,C)
};

// Round to nearest even. T is Half or BFloat16.
template <class T>
struct FloatToHalf {
  static constexpr const char* kName = "float_to_half";
  using Element = T;
  Index n;
  const float* x;  // (n)
  T* y;            // (n)
};

template <class T>
struct HalfToFloat {
  static constexpr const char* kName = "half_to_float";
  using Element = T;
  Index n;
  const T* x;  // (n)
  float* y;    // (n)
};

enum class Distribution { uniform, normal };

// Number i of Philox stream (seed, stream): uniform in [a, b), or normal with mean a and deviation
// b (Box-Muller, two numbers a pair). The same numbers on every backend, up to the rounding of log
// and cos.
template <class T>
struct FillRandom {
  static constexpr const char* kName = "fill_random";
  using Element = T;
  Index n;
  Distribution distribution;
  T a, b;
  std::uint64_t seed, stream;
  T* y;  // (n)
};

template <class T>
struct FillConstant {
  static constexpr const char* kName = "fill_constant";
  using Element = T;
  Index n;
  T value;
  T* y;  // (n)
};

// ---- loss, metrics, optimizer
// -------------------------------------------------------------------------

// Mean over the samples whose label is not ignore_index of
//   (1 - smoothing) * -log p[label] + smoothing * mean over classes of -log p,
// p = softmax(logits), computed from logits - max. Without a counted sample the loss is NaN, as
// PyTorch's. A label outside 0..classes-1 sets the status word and counts as ignored.
template <class T>
struct CrossEntropyForward {
  static constexpr const char* kName = "cross_entropy_forward";
  using Element = T;
  Index n, classes;
  double smoothing;
  std::int32_t ignore_index;
  const T* logits;             // (N,CLASSES)
  const std::int32_t* labels;  // (N)
  T* log_sum;                  // (N) log of the sum of exponentials, kept for backward
  T* loss;                     // (1)
  StatusWord* status;
};

// dlogits = dloss * (p - target) / counted samples; 0 for ignored ones.
template <class T>
struct CrossEntropyBackward {
  static constexpr const char* kName = "cross_entropy_backward";
  using Element = T;
  Index n, classes;
  double smoothing;
  std::int32_t ignore_index;
  const T* logits;             // (N,CLASSES)
  const std::int32_t* labels;  // (N)
  const T* log_sum;            // (N)
  const T* dloss;              // (1)
  T* dlogits;                  // (N,CLASSES)
};

// count[0] = samples whose label is among the k largest logits; the earlier class wins a tie, NaN
// counts as the largest of all, and a sample whose own logit is NaN is never correct.
template <class T>
struct CorrectInTopK {
  static constexpr const char* kName = "correct_in_top_k";
  using Element = T;
  Index n, classes, k;
  const T* logits;             // (N,CLASSES)
  const std::int32_t* labels;  // (N)
  std::int64_t* count;         // (1)
};

// One pass over flat memory. With g = grad + weight_decay * w:
//   velocity = momentum * velocity + g;  w -= lr * (nesterov ? g + momentum * velocity : velocity).
// Velocity starts as zeros. The learning rate is read from device memory, so that a captured step
// uses the present one. The same bits on every instruction set: no fused multiply-add.
template <class T>
struct SgdStep {
  static constexpr const char* kName = "sgd_step";
  using Element = T;
  Index n;
  const float* lr;  // (1)
  T momentum, weight_decay;
  bool nesterov;
  const T* grad;  // (n)
  T* velocity;    // (n), or null where momentum is 0
  T* w;           // (n)
};

// A 64-bit digest of `bytes` bytes at x, the same on every backend: the sum over the 8-byte words
// (the last padded with zeros) of mix(word, position). T is std::uint8_t.
template <class T>
struct HashBuffer {
  static constexpr const char* kName = "hash_buffer";
  using Element = T;
  Index bytes;
  const T* x;             // (bytes)
  std::uint64_t* digest;  // (1)
};

// What HashBuffer sums (the finaliser of SplitMix64; Steele, Lea, Flood, 2014).
RINGGRAD_HOST_DEVICE inline std::uint64_t hash_word(std::uint64_t word, std::uint64_t position) {
  std::uint64_t z = word ^ ((position + 1) * 0x9E3779B97F4A7C15U);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

}  // namespace ringgrad::kernels
