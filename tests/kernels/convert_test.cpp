#include <limits>

#include "tests/support/backend_test.h"

namespace ringgrad::test {
namespace {

using namespace kernels;

class ConvertTest : public BackendTest {};

TEST_P(ConvertTest, ImagesBecomeNormalisedFloats) {
  RINGGRAD_NEEDS(ImageToFloat<float>);
  for (const Index c : {1, 2, 3, 4}) {
    for (const Index pixels : {0, 1, 5, 1000}) {
      std::vector<std::uint8_t> bytes;
      for (const float v : integers(pixels * c, 3, 0, 255)) {
        bytes.push_back(static_cast<std::uint8_t>(v));
      }
      DeviceArray<std::uint8_t> x(*context_, bytes);
      DeviceArray<float> y(*context_, unwritten<float>(pixels * c));
      run(*context_, ImageToFloat<float>{pixels,
                                         c,
                                         {0.485F, 0.456F, 0.406F, 0.1F},
                                         {0.229F, 0.224F, 0.225F, 0.5F},
                                         x.get(),
                                         y.get()});
      const float mean[] = {0.485F, 0.456F, 0.406F, 0.1F};
      const float stddev[] = {0.229F, 0.224F, 0.225F, 0.5F};
      std::vector<float> expected;
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        const std::size_t channel = i % static_cast<std::size_t>(c);
        expected.push_back((static_cast<float>(bytes[i]) / 255.0F - mean[channel]) /
                           stddev[channel]);
      }
      EXPECT_EQ(y.host(), expected) << "the bits of ToTensor and Normalize";
    }
  }
}

TEST_P(ConvertTest, FlattenIsChannelMajor) {
  RINGGRAD_NEEDS(TransposeImages<float>);
  DeviceArray<float> x(*context_, {1, 2, 3, 4, 5, 6}), y(*context_, unwritten<float>(6));
  run(*context_, TransposeImages<float>{1, 3, 2, x.get(), y.get()});
  EXPECT_EQ(y.host(), (std::vector<float>{1, 3, 5, 2, 4, 6}));
  for (const auto& [n, hw, c] : {std::tuple{2, 64, 64}, {3, 17, 31}, {1, 1, 5}, {0, 2, 2}}) {
    const std::vector<float> values = uniform(n * hw * c, 4);
    DeviceArray<float> a(*context_, values), b(*context_, unwritten<float>(n * hw * c));
    DeviceArray<float> back(*context_, unwritten<float>(n * hw * c));
    run(*context_, TransposeImages<float>{n, hw, c, a.get(), b.get()});
    run(*context_, TransposeImages<float>{n, c, hw, b.get(), back.get()});
    EXPECT_EQ(back.host(), values);
  }
}

template <class T>
std::vector<std::uint16_t> halves(Context& context, const std::vector<float>& values) {
  const auto n = static_cast<Index>(values.size());
  DeviceArray<float> x(context, values);
  DeviceArray<T> y(context, unwritten<T>(n));
  run(context, FloatToHalf<T>{n, x.get(), y.get()});
  std::vector<std::uint16_t> bits;
  for (const T half : y.host()) {
    bits.push_back(half.bits);
  }
  return bits;
}

TEST_P(ConvertTest, HalfRoundsToNearestEven) {
  RINGGRAD_NEEDS(FloatToHalf<Half>);
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(halves<Half>(*context_, {0.0F, -0.0F, 1.0F, 65504.0F, 65519.99F, 65520.0F, -inf,
                                     0x1p-24F, 0x1p-25F, 0x1.8p-25F, 0x1p-14F, 1.0F + 0x1p-11F,
                                     1.0F + 0x1.8p-10F, 0x1.ff8p-15F}),
            (std::vector<std::uint16_t>{0, 0x8000, 0x3c00, 0x7bff, 0x7bff, 0x7c00, 0xfc00, 1, 0, 1,
                                        0x0400, 0x3c00, 0x3c02, 0x03ff}));
}

TEST_P(ConvertTest, BFloat16RoundsToNearestEven) {
  RINGGRAD_NEEDS(FloatToHalf<BFloat16>);
  EXPECT_EQ(halves<BFloat16>(*context_, {1.0F, 1.0F + 0x1p-8F, 1.0F + 0x1.8p-7F, 3.0e38F, -2.5F}),
            (std::vector<std::uint16_t>{0x3f80, 0x3f80, 0x3f82, 0x7f62, 0xc020}));
}

TEST_P(ConvertTest, EveryHalfSurvivesTheRoundTrip) {
  RINGGRAD_NEEDS(HalfToFloat<Half>);
  std::vector<Half> all;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    all.push_back({static_cast<std::uint16_t>(bits)});
  }
  const auto n = static_cast<Index>(all.size());
  DeviceArray<Half> x(*context_, all);
  DeviceArray<float> y(*context_, unwritten<float>(n));
  DeviceArray<Half> back(*context_, unwritten<Half>(n));
  run(*context_, HalfToFloat<Half>{n, x.get(), y.get()});
  run(*context_, FloatToHalf<Half>{n, y.get(), back.get()});
  const std::vector<Half> got = back.host();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool nan = (all[i].bits & 0x7fffU) > 0x7c00U;
    ASSERT_EQ(nan ? got[i].bits | 0x3ffU : got[i].bits, nan ? all[i].bits | 0x3ffU : all[i].bits);
  }
}

RINGGRAD_ON_ALL_BACKENDS(ConvertTest);

}  // namespace
}  // namespace ringgrad::test
