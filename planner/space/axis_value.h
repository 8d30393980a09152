#pragma once

#include <cstdint>

#include "planner/space/search_space.h"

namespace headroom::plan {

/// The value that `plan` has on `axis`; for an axis that its framework does not have,
/// `AxisTraits::absent`.
[[nodiscard]] std::int64_t value_of(const ir::ParallelPlan& plan, Axis axis);

/// The values that plans of the space have on `axis`, in order. Of choices within cells (what is
/// recomputed, switches) those that the constraints allow.
[[nodiscard]] AxisValues values_in_space(const SpaceQuestion& question, Axis axis);

}  // namespace headroom::plan
