#include "runtimes/interface/outside_term.h"

namespace headroom::ir {

std::string_view name_of(Basis basis) {
  switch (basis) {
    case Basis::kMeasured:
      return "measured";
    case Basis::kDerived:
      return "derived";
    case Basis::kAssumed:
      return "assumed";
  }
  return "?";
}

}  // namespace headroom::ir
