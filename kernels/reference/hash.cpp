// The digest of a buffer.
#include <algorithm>
#include <cstring>

#include "kernels/kernels.h"
#include "kernels/reference/operations.h"

namespace ringgrad::kernels::reference {
namespace {

void hash_buffer(Context&, const HashBuffer<std::uint8_t>& a) {
  std::uint64_t sum = 0;
  for (Index at = 0; at < a.bytes; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, a.x + at, static_cast<std::size_t>(std::min<Index>(8, a.bytes - at)));
    sum += hash_word(word, static_cast<std::uint64_t>(at / 8));
  }
  *a.digest = sum;
}

}  // namespace

void add_hash(OperationTable& table) {
  table.add<HashBuffer<std::uint8_t>, hash_buffer>();
}

}  // namespace ringgrad::kernels::reference
