#include "comm/collectives.h"

#include "runtime/error.h"

namespace ringgrad::comm {

bool Call::operator==(const Call& other) const {
  return kind == other.kind && op == other.op && dtype == other.dtype && root == other.root &&
         count == other.count && sequence == other.sequence;
}

std::string Call::text() const {
  const std::string what = concat(" ", ringgrad::name_of(dtype), ", ", count, " elements");
  const std::string which = concat(" (collective ", sequence, ")");
  switch (kind) {
    case Kind::all_reduce:
      return concat("all_reduce ", name_of(op), what, which);
    case Kind::broadcast:
      return concat("broadcast from rank ", root, what, which);
    case Kind::all_gather:
      return concat("all_gather", what, which);
    case Kind::reduce_scatter:
      return concat("reduce_scatter ", name_of(op), what, which);
    case Kind::barrier:
      break;
  }
  return concat("barrier", which);
}

std::string Collectives::waited(const Call& call, std::chrono::milliseconds long_enough,
                                const std::string& for_whom) const {
  return concat("rank ", rank(), " waited ", std::chrono::duration<double>(long_enough).count(),
                " s in ", call.text(), " for ", for_whom);
}

std::string disagreement(int a, const Call& call_a, int b, const Call& call_b) {
  return concat("the ranks disagree: rank ", a, " calls ", call_a.text(), ", rank ", b, " calls ",
                call_b.text());
}

}  // namespace ringgrad::comm
