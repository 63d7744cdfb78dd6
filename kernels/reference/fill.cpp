// Constants and random numbers from the counter-based generator.
#include <cmath>

#include "kernels/kernels.h"
#include "kernels/reference/operations.h"
#include "runtime/philox.h"

namespace ringgrad::kernels::reference {
namespace {

template <class T>
void fill_constant(Context&, const FillConstant<T>& a) {
  for (Index i = 0; i < a.n; ++i) {
    a.y[i] = a.value;
  }
}

template <class T>
void fill_random(Context&, const FillRandom<T>& a) {
  constexpr double kTwoPi = 6.283185307179586;
  for (Index i = 0; i < a.n; ++i) {
    const PhiloxBlock block = philox(a.seed, a.stream, static_cast<std::uint64_t>(i / 4));
    const Index lane = i % 4;
    if (a.distribution == Distribution::uniform) {
      a.y[i] = a.a + (a.b - a.a) * static_cast<T>(unit_float(block.word[lane]));
      continue;
    }
    // A pair of words gives a pair of normals; 1 - u keeps the logarithm finite.
    const auto u = static_cast<double>(unit_float(block.word[lane & ~Index{1}]));
    const auto v = static_cast<double>(unit_float(block.word[lane | 1]));
    const double radius = std::sqrt(-2.0 * std::log(1.0 - u));
    const double normal = radius * (lane % 2 == 0 ? std::cos(kTwoPi * v) : std::sin(kTwoPi * v));
    a.y[i] = a.a + a.b * static_cast<T>(normal);
  }
}

template <class T>
void add_for(OperationTable& table) {
  table.add<FillConstant<T>, fill_constant<T>>();
  table.add<FillRandom<T>, fill_random<T>>();
}

}  // namespace

void add_fill(OperationTable& table) {
  add_for<float>(table);
  add_for<double>(table);
}

}  // namespace ringgrad::kernels::reference
