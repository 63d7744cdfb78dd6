// The differentiable operations. Each checks its shapes (an Error names what does not fit), runs
// the kernel, and records its backward. Images are (N,H,W,C), filters (K,R,S,C).
#pragma once

#include <functional>

#include "engine/autograd.h"
#include "engine/tensor.h"

namespace ringgrad {

struct Conv2dOptions {
  Index stride = 1;
  Index pad = 0;
};

// x (N,H,W,C), w (K,R,S,C), bias (K) or undefined -> (N,P,Q,K).
Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& bias, Conv2dOptions options = {});

struct MaxPool2dOptions {
  Index kernel = 2;
  Index stride = 2;
  Index pad = 0;
  bool relu = false;  // max(0, ·) on top: the same as pooling after ReLU, at less cost
};

// x (N,H,W,C) -> (N,P,Q,C).
Tensor max_pool2d(const Tensor& x, MaxPool2dOptions options = {});

// x (N,H,W,C) -> (N,C).
Tensor global_avg_pool2d(const Tensor& x);

// x (N,H,W,C) -> (N,C*H*W), channel-major as PyTorch's.
Tensor flatten(const Tensor& x);

// x (N,IN), w (OUT,IN), bias (OUT) or undefined -> (N,OUT).
Tensor linear(const Tensor& x, const Tensor& w, const Tensor& bias);

// The sum of a tensor over all replicas, which all call it at the same time.
using SumOverReplicas = std::function<Tensor(const Tensor&)>;

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;
  bool training = true;  // statistics of the batch (and running ones updated), or the running ones
  bool relu = false;
  SumOverReplicas sum_over_replicas = {};  // statistics of all replicas' batches together; or empty
};

// relu?(batch_norm(x) + residual); x (N,H,W,C) or (N,C); gamma, beta and running statistics (C);
// residual of x's shape, or undefined. In training one value per channel, of all replicas whose
// statistics count together, is an Error.
Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, Tensor& running_mean,
                  Tensor& running_var, const Tensor& residual, BatchNormOptions options);

Tensor relu(const Tensor& x);
Tensor add(const Tensor& a, const Tensor& b);

struct CrossEntropyOptions {
  double label_smoothing = 0;
  std::int32_t ignore_index = -100;
};

// logits (N,CLASSES), labels (N) i32 -> scalar: the mean over the counted samples.
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, CrossEntropyOptions options = {});

// How many of the N samples have their label among the k largest logits, as (1) i64. No gradient.
Tensor correct_in_top_k(const Tensor& logits, const Tensor& labels, Index k);

// Bytes (N,H,W,C) -> floats (x / 255 - mean[c]) / stddev[c]. No gradient.
struct Normalization {
  float mean[4] = {0, 0, 0, 0};
  float stddev[4] = {1, 1, 1, 1};
};
Tensor image_to_float(const Tensor& bytes, const Normalization& normalization,
                      DType dtype = DType::f32);

// A 64-bit digest of a tensor's bytes, the same on every backend.
std::uint64_t hash(const Tensor& x);

}  // namespace ringgrad
