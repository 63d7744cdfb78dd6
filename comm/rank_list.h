// Ranks as error messages list them.
#pragma once

#include <string>

namespace ringgrad::comm {

// "rank 2, rank 3"; empty for none. `Ranks`: any container of numbers.
template <class Ranks>
std::string rank_list(const Ranks& ranks) {
  std::string text;
  for (const auto rank : ranks) {
    text += (text.empty() ? "rank " : ", rank ") + std::to_string(rank);
  }
  return text;
}

}  // namespace ringgrad::comm
