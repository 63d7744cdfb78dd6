#include "tests/support/backend_test.h"

namespace ringgrad::test {
namespace {

using namespace kernels;

class HashTest : public BackendTest {
 protected:
  std::uint64_t digest(const std::vector<std::uint8_t>& bytes) {
    DeviceArray<std::uint8_t> x(*context_, bytes);
    DeviceArray<std::uint64_t> out(*context_, {0});
    run(*context_, HashBuffer<std::uint8_t>{static_cast<Index>(bytes.size()), x.get(), out.get()});
    return out.host().front();
  }
};

TEST_P(HashTest, SeesEveryByteAndItsPlace) {
  RINGGRAD_NEEDS(HashBuffer<std::uint8_t>);
  std::vector<std::uint8_t> bytes(101, 7);
  const std::uint64_t before = digest(bytes);
  EXPECT_EQ(digest(bytes), before);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] ^= 1;
    EXPECT_NE(digest(bytes), before) << "byte " << i;
    bytes[i] ^= 1;
  }
  std::vector<std::uint8_t> a(16), b(16);
  a[0] = b[8] = 1;
  EXPECT_NE(digest(a), digest(b));
  EXPECT_EQ(digest({}), 0U);
}

RINGGRAD_ON_ALL_BACKENDS(HashTest);

}  // namespace
}  // namespace ringgrad::test
