#include "tests/support/backend_test.h"

namespace ringgrad::test {
namespace {

using namespace kernels;

class SgdTest : public BackendTest {
 protected:
  struct State {
    std::vector<float> w, velocity;
  };
  static State steps(Context& context, Index n, float momentum, float weight_decay, bool nesterov) {
    DeviceArray<float> w(context, uniform(n, 1)), grad(context, uniform(n, 2));
    DeviceArray<float> velocity(context, std::vector<float>(static_cast<std::size_t>(n)));
    DeviceArray<float> lr(context, {0.1F});
    for (int step = 0; step < 3; ++step) {
      run(context, SgdStep<float>{n, lr.get(), momentum, weight_decay, nesterov, grad.get(),
                                  momentum > 0 ? velocity.get() : nullptr, w.get()});
    }
    return {w.host(), velocity.host()};
  }
};

TEST_P(SgdTest, HasTheReferencesBits) {
  RINGGRAD_NEEDS(SgdStep<float>);
  for (const Index n : {0, 1, 17, 1000, kRaceChecked ? 1001 : 40001}) {
    for (const float momentum : {0.0F, 0.9F}) {
      for (const float weight_decay : {0.0F, 0.01F}) {
        for (const bool nesterov : {false, momentum > 0}) {
          const State got = steps(*context_, n, momentum, weight_decay, nesterov);
          const State expected = steps(*reference_, n, momentum, weight_decay, nesterov);
          EXPECT_EQ(got.w, expected.w);
          EXPECT_EQ(got.velocity, expected.velocity);
        }
      }
    }
  }
}

TEST_P(SgdTest, TheRateMayChangeBetweenSteps) {
  RINGGRAD_NEEDS(SgdStep<float>);
  DeviceArray<float> w(*context_, {0}), velocity(*context_, {0}), grad(*context_, {1});
  for (const float rate : {0.1F, 0.01F}) {
    DeviceArray<float> lr(*context_, {rate});
    run(*context_,
        SgdStep<float>{1, lr.get(), 0.9F, 0, false, grad.get(), velocity.get(), w.get()});
  }
  EXPECT_TRUE(close(w.host(), std::vector<float>{-0.119F}));
}

RINGGRAD_ON_ALL_BACKENDS(SgdTest);

}  // namespace
}  // namespace ringgrad::test
