#pragma once

namespace headroom::plan {

/// Sums in another order differ in their last digits. A lower bound of a time is multiplied by
/// this, so that it stays below the time.
inline constexpr double kFloorRounding = 1 - 1e-9;

}  // namespace headroom::plan
