#pragma once

#include <memory>

#include "planner/evaluate/plan_bounds.h"

namespace headroom::plan {

struct SearchInputs;

/// Bounds of torchtitan's plans.
///
/// Model:   `TitanFloor`. `sampled_floor`: of a pipeline the rank whose floor is the highest, with
///          twice as many micro-batches as ranks, once through: more of them take no less. Without
///          a pipeline the line through the peaks of three and of four layers, below which that of
///          more layers does not fall, as it is the greatest of moments that grow with the layers
///          by a constant; where some layers run again, less what all of these no longer keep.
///          `lighter`: of plans that differ in how many layers run again alone, those that run
///          fewer again.
[[nodiscard]] std::unique_ptr<PlanBounds> titan_bounds(const SearchInputs& inputs);

}  // namespace headroom::plan
