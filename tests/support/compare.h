// The one comparator. It looks at size and finiteness first, then at every element, and reports the
// worst one.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace ringgrad::test {

// A difference passes if it is at most `of_largest` times the largest |expected| plus `relative`
// times the element's own.
struct Tolerance {
  double of_largest;
  double relative;
};

// Single precision: a sum of n products in another order differs by some sqrt(n) roundings (6e-8
// each) of the largest terms; 1e-5 covers the longest sums of our networks, and 1e-4 the small
// elements.
constexpr Tolerance kFloat{1e-5, 1e-4};
constexpr Tolerance kDouble{1e-13, 1e-12};
constexpr Tolerance kExact{0, 0};

template <class A, class B>
testing::AssertionResult close(const std::vector<A>& actual, const std::vector<B>& expected,
                               Tolerance tolerance = kFloat) {
  if (actual.size() != expected.size()) {
    return testing::AssertionFailure()
           << actual.size() << " elements, expected " << expected.size();
  }
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto a = static_cast<double>(actual[i]);
    const auto e = static_cast<double>(expected[i]);
    // What is expected to be NaN or infinite must be just that.
    if (std::isfinite(e) ? !std::isfinite(a) : !(std::isnan(e) ? std::isnan(a) : a == e)) {
      return testing::AssertionFailure() << "element " << i << " is " << a << ", expected " << e;
    }
    largest = std::isfinite(e) ? std::max(largest, std::abs(e)) : largest;
  }
  double worst = 0;
  std::size_t worst_at = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto e = static_cast<double>(expected[i]);
    if (!std::isfinite(e)) {
      continue;
    }
    const double difference = std::abs(static_cast<double>(actual[i]) - e);
    const double allowed = tolerance.of_largest * largest + tolerance.relative * std::abs(e);
    const double excess = difference - allowed;
    if (!(difference <= allowed) && excess > worst) {
      worst = excess;
      worst_at = i;
    }
  }
  if (worst > 0) {
    return testing::AssertionFailure()
           << "worst at element " << worst_at << ": " << static_cast<double>(actual[worst_at])
           << ", expected " << static_cast<double>(expected[worst_at]) << " (largest " << largest
           << ", tolerance " << tolerance.of_largest << " of it plus " << tolerance.relative
           << " relative)";
  }
  return testing::AssertionSuccess();
}

}  // namespace ringgrad::test
