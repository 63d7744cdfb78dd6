#include <cmath>
#include <numeric>

#include "tests/support/backend_test.h"

namespace ringgrad::test {
namespace {

using namespace kernels;

class FillTest : public BackendTest {
 protected:
  static std::vector<float> random(Context& context, Index n, Distribution distribution, float a,
                                   float b, std::uint64_t seed, std::uint64_t stream) {
    DeviceArray<float> y(context, unwritten<float>(n));
    run(context, FillRandom<float>{n, distribution, a, b, seed, stream, y.get()});
    return y.host();
  }
};

TEST_P(FillTest, Constant) {
  RINGGRAD_NEEDS(FillConstant<float>);
  for (const Index n : {0, 1, 1000}) {
    DeviceArray<float> y(*context_, unwritten<float>(n));
    run(*context_, FillConstant<float>{n, 2.5F, y.get()});
    EXPECT_EQ(y.host(), std::vector<float>(static_cast<std::size_t>(n), 2.5F));
  }
}

TEST_P(FillTest, UniformHasTheReferencesBits) {
  RINGGRAD_NEEDS(FillRandom<float>);
  for (const Index n : {0, 1, 5, 4099}) {
    EXPECT_EQ(random(*context_, n, Distribution::uniform, -0.5F, 0.25F, 7, 9),
              random(*reference_, n, Distribution::uniform, -0.5F, 0.25F, 7, 9));
  }
}

TEST_P(FillTest, NormalMatchesReferenceAndItsMoments) {
  RINGGRAD_NEEDS(FillRandom<float>);
  const std::vector<float> y = random(*context_, 40001, Distribution::normal, 1, 2, 3, 4);
  EXPECT_TRUE(close(y, random(*reference_, 40001, Distribution::normal, 1, 2, 3, 4)));
  const double n = static_cast<double>(y.size());
  const double mean = std::accumulate(y.begin(), y.end(), 0.0) / n;
  double squares = 0;
  for (const float v : y) {
    squares += (static_cast<double>(v) - mean) * (static_cast<double>(v) - mean);
  }
  EXPECT_NEAR(mean, 1, 0.04);  // 4 standard errors
  EXPECT_NEAR(std::sqrt(squares / n), 2, 0.03);
}

TEST_P(FillTest, StreamsDiffer) {
  RINGGRAD_NEEDS(FillRandom<float>);
  EXPECT_NE(random(*context_, 8, Distribution::uniform, 0, 1, 1, 1),
            random(*context_, 8, Distribution::uniform, 0, 1, 1, 2));
  EXPECT_NE(random(*context_, 8, Distribution::uniform, 0, 1, 1, 1),
            random(*context_, 8, Distribution::uniform, 0, 1, 2, 1));
}

RINGGRAD_ON_ALL_BACKENDS(FillTest);

}  // namespace
}  // namespace ringgrad::test
