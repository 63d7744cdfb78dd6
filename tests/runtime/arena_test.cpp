#include "runtime/arena.h"

#include <gtest/gtest.h>

#include "kernels/backends.h"
#include "runtime/buffer.h"
#include "runtime/host_device.h"

namespace ringgrad::test {
namespace {

TEST(Arena, HandsAReturnedBlockOutAgainForTheSameSizeAndStream) {
  const auto device = make_host_device("cpu", false);
  Arena arena(*device);
  int one = 0;
  int two = 0;
  void* a = arena.allocate(1000, &one);
  arena.release(a, 1000, &one);
  EXPECT_EQ(arena.allocate(900, &one), a) << "both round up to 1024";
  void* b = arena.allocate(900, &two);
  EXPECT_NE(b, a) << "another stream may still be using it";
  void* c = arena.allocate(5000, &one);
  EXPECT_EQ(arena.statistics().system_allocations, 3);
  EXPECT_EQ(arena.statistics().bytes_in_use, 1024U + 1024U + 5120U);
  arena.release(a, 900, &one);
  arena.release(b, 900, &two);
  arena.release(c, 5000, &one);
  EXPECT_EQ(arena.statistics().bytes_in_use, 0U);
  EXPECT_EQ(arena.statistics().peak_bytes_in_use, 7168U);
  arena.trim();
  EXPECT_EQ(arena.statistics().bytes_reserved, 0U);
}

TEST(Arena, ZeroBytesGiveAPointer) {
  const auto device = make_host_device("cpu", false);
  Arena arena(*device);
  void* p = arena.allocate(0, nullptr);
  EXPECT_NE(p, nullptr);
  arena.release(p, 0, nullptr);
}

TEST(Buffer, GivesItsMemoryBackOnce) {
  const auto context = kernels::open_context("cpu", 1);
  const std::size_t before = context->arena().statistics().bytes_in_use;
  {
    Buffer a = Buffer::on_device(*context, 512);
    Buffer b = std::move(a);
    EXPECT_EQ(context->arena().statistics().bytes_in_use, before + 512);
  }
  EXPECT_EQ(context->arena().statistics().bytes_in_use, before);
}

}  // namespace
}  // namespace ringgrad::test
