#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model_ir/base/units.h"

namespace headroom::ir {

/// How a figure outside the replay is known.
enum class Basis : std::uint8_t { kMeasured, kDerived, kAssumed };
/// "measured", "derived", "assumed".
[[nodiscard]] std::string_view name_of(Basis basis);

/// Device memory that the replay of the allocator does not see, by name.
struct OutsideTerm {
  std::string name;  ///< "CUDA context", "NCCL communicator"
  Bytes bytes;       ///< What the verdict takes away from the device.
  Bytes bound;       ///< What it may reach; never below `bytes`.
  Basis basis = Basis::kAssumed;
  std::string source;
  friend bool operator==(const OutsideTerm&, const OutsideTerm&) = default;
};

}  // namespace headroom::ir
