#include "tests/support/backend_test.h"

namespace ringgrad::test {
namespace {

using namespace kernels;

class CrossEntropyTest : public BackendTest {
 protected:
  struct Results {
    float loss;
    std::vector<float> dlogits;
  };
  static Results both(Context& context, Index classes, const std::vector<float>& logits,
                      const std::vector<std::int32_t>& labels, double smoothing = 0) {
    const auto n = static_cast<Index>(labels.size());
    DeviceArray<float> x(context, logits), log_sum(context, unwritten<float>(n));
    DeviceArray<std::int32_t> l(context, labels);
    DeviceArray<float> loss(context, unwritten<float>(1)), dloss(context, {2.0F});
    DeviceArray<float> dx(context, unwritten<float>(n * classes));
    run(context, CrossEntropyForward<float>{n, classes, smoothing, -100, x.get(), l.get(),
                                            log_sum.get(), loss.get(), context.status_word()});
    run(context, CrossEntropyBackward<float>{n, classes, smoothing, -100, x.get(), l.get(),
                                             log_sum.get(), dloss.get(), dx.get()});
    return {loss.host().front(), dx.host()};
  }
  static std::int64_t top_k(Context& context, Index classes, Index k,
                            const std::vector<float>& logits,
                            const std::vector<std::int32_t>& labels) {
    DeviceArray<float> x(context, logits);
    DeviceArray<std::int32_t> l(context, labels);
    DeviceArray<std::int64_t> count(context, {-1});
    run(context, CorrectInTopK<float>{static_cast<Index>(labels.size()), classes, k, x.get(),
                                      l.get(), count.get()});
    return count.host().front();
  }
};

TEST_P(CrossEntropyTest, MatchesReference) {
  RINGGRAD_NEEDS(CrossEntropyForward<float>);
  for (const auto& [n, classes] :
       {std::pair{1, 1}, {3, 2}, {64, 10}, {257, 1000}, {5, 1023}, {5, 1025}}) {
    for (const double smoothing : {0.0, 0.1}) {
      SCOPED_TRACE(concat("n ", n, " classes ", classes, " smoothing ", smoothing));
      std::vector<std::int32_t> labels = integers<std::int32_t>(n, 1, 0, classes - 1);
      if (n > 1) {
        labels[1] = -100;
      }
      const std::vector<float> logits = uniform(n * classes, 2, -5, 5);
      const Results got = both(*context_, classes, logits, labels, smoothing);
      const Results expected = both(*reference_, classes, logits, labels, smoothing);
      EXPECT_TRUE(close(std::vector{got.loss}, std::vector{expected.loss}));
      EXPECT_TRUE(close(got.dlogits, expected.dlogits));
      for (const Index k : {1, 5}) {
        EXPECT_EQ(top_k(*context_, classes, k, logits, labels),
                  top_k(*reference_, classes, k, logits, labels));
      }
    }
  }
}

TEST_P(CrossEntropyTest, IsShiftSafe) {
  RINGGRAD_NEEDS(CrossEntropyForward<float>);
  const Results got = both(*context_, 3, {1000, 0, -1000}, {2});
  EXPECT_EQ(got.loss, 2000);
  EXPECT_TRUE(close(got.dlogits, std::vector<float>{2, 0, -2}));
}

TEST_P(CrossEntropyTest, ALabelOutOfRangeIsReportedWithSampleAndValue) {
  RINGGRAD_NEEDS(CrossEntropyForward<float>);
  both(*context_, 2, {1, 2, 3, 4, 5, 6}, {0, 7, 1});
  try {
    context_->check_status();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "label 7 of sample 1 of the batch is outside the classes of the network");
  }
  EXPECT_TRUE(std::isfinite(both(*context_, 2, {1, 2}, {0}).loss)) << "still usable";
  context_->check_status();
}

TEST_P(CrossEntropyTest, NothingCountedIsNan) {
  RINGGRAD_NEEDS(CrossEntropyForward<float>);
  EXPECT_TRUE(std::isnan(both(*context_, 2, {1, 2}, {-100}).loss));
}

TEST_P(CrossEntropyTest, TiesAndNanInTopK) {
  RINGGRAD_NEEDS(CorrectInTopK<float>);
  const float nan = std::nanf("");
  EXPECT_EQ(top_k(*context_, 3, 1, {1, 1, 0}, {0}), 1);
  EXPECT_EQ(top_k(*context_, 3, 1, {1, 1, 0}, {1}), 0);
  EXPECT_EQ(top_k(*context_, 3, 2, {1, 1, 0}, {1}), 1);
  EXPECT_EQ(top_k(*context_, 3, 1, {nan, 1, 0}, {1}), 0);
  EXPECT_EQ(top_k(*context_, 3, 3, {nan, 1, 0}, {0}), 0);
}

RINGGRAD_ON_ALL_BACKENDS(CrossEntropyTest);

}  // namespace
}  // namespace ringgrad::test
