#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model_ir/base/units.h"

namespace headroom::ir {

/// Where a figure outside the replay comes from.
enum class Basis : std::uint8_t { kMeasured, kDerived, kAssumed };
/// "measured", "derived", "assumed".
[[nodiscard]] std::string_view name_of(Basis basis);

/// Device memory that the replay of the allocator does not see.
struct OutsideTerm {
  std::string name;  ///< "CUDA context", "NCCL communicator"
  Bytes bytes;       ///< What the verdict subtracts from the device's memory.
  Bytes bound;       ///< The most it may reach; never below `bytes`.
  Basis basis = Basis::kAssumed;
  std::string source;
  friend bool operator==(const OutsideTerm&, const OutsideTerm&) = default;
};

}  // namespace headroom::ir
