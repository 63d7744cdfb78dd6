// Softmax cross-entropy and top-k accuracy.
#include <algorithm>
#include <cmath>

#include "kernels/kernels.h"
#include "kernels/reference/operations.h"

namespace ringgrad::kernels::reference {
namespace {

template <class Args>
bool counted(const Args& a, Index n) {
  return a.labels[n] != a.ignore_index && a.labels[n] >= 0 && a.labels[n] < a.classes;
}

template <class Args>
double counted_samples(const Args& a) {
  Index count = 0;
  for (Index n = 0; n < a.n; ++n) {
    count += counted(a, n) ? 1 : 0;
  }
  return static_cast<double>(count);
}

template <class T>
void cross_entropy_forward(Context&, const CrossEntropyForward<T>& a) {
  double total = 0;
  for (Index n = 0; n < a.n; ++n) {
    const T* row = a.logits + n * a.classes;
    const auto largest = static_cast<double>(*std::max_element(row, row + a.classes));
    double sum = 0;
    double sum_logits = 0;
    for (Index c = 0; c < a.classes; ++c) {
      sum += std::exp(static_cast<double>(row[c]) - largest);
      sum_logits += static_cast<double>(row[c]);
    }
    const double log_sum = largest + std::log(sum);
    a.log_sum[n] = static_cast<T>(log_sum);
    if (counted(a, n)) {
      const double own = log_sum - static_cast<double>(row[a.labels[n]]);
      const double mean = log_sum - sum_logits / static_cast<double>(a.classes);
      total += a.smoothing > 0 ? (1 - a.smoothing) * own + a.smoothing * mean : own;
    } else if (a.labels[n] != a.ignore_index && a.status->code == 0) {
      a.status->code = 1;
      a.status->index = n;
      a.status->value = a.labels[n];
    }
  }
  *a.loss = static_cast<T>(total / counted_samples(a));
}

template <class T>
void cross_entropy_backward(Context&, const CrossEntropyBackward<T>& a) {
  const double scale = static_cast<double>(*a.dloss) / counted_samples(a);
  for (Index n = 0; n < a.n; ++n) {
    for (Index c = 0; c < a.classes; ++c) {
      const Index i = n * a.classes + c;
      if (!counted(a, n)) {
        a.dlogits[i] = 0;
        continue;
      }
      const double p =
          std::exp(static_cast<double>(a.logits[i]) - static_cast<double>(a.log_sum[n]));
      const double target =
          a.smoothing / static_cast<double>(a.classes) + (c == a.labels[n] ? 1 - a.smoothing : 0.0);
      a.dlogits[i] = static_cast<T>(scale * (p - target));
    }
  }
}

template <class T>
void correct_in_top_k(Context&, const CorrectInTopK<T>& a) {
  std::int64_t count = 0;
  for (Index n = 0; n < a.n; ++n) {
    const Index label = a.labels[n];
    if (label < 0 || label >= a.classes) {
      continue;
    }
    const T* row = a.logits + n * a.classes;
    const T own = row[label];
    Index before = 0;
    for (Index c = 0; c < a.classes; ++c) {
      before += (std::isnan(row[c]) || row[c] > own || (row[c] == own && c < label)) ? 1 : 0;
    }
    count += !std::isnan(own) && before < a.k ? 1 : 0;
  }
  *a.count = count;
}

template <class T>
void add_for(OperationTable& table) {
  table.add<CrossEntropyForward<T>, cross_entropy_forward<T>>();
  table.add<CrossEntropyBackward<T>, cross_entropy_backward<T>>();
  table.add<CorrectInTopK<T>, correct_in_top_k<T>>();
}

}  // namespace

void add_cross_entropy(OperationTable& table) {
  add_for<float>(table);
  add_for<double>(table);
}

}  // namespace ringgrad::kernels::reference
