#pragma once

namespace headroom::plan {

/// Sums in another order differ in their last digits: a floor of a time is multiplied by this, so
/// that it stays below the time that it is a floor of.
inline constexpr double kFloorRounding = 1 - 1e-9;

}  // namespace headroom::plan
