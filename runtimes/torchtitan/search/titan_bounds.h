#pragma once

#include <memory>

#include "planner/evaluate/plan_bounds.h"

namespace headroom::plan {

struct SearchInputs;

/// Bounds of torchtitan's plans.
///
/// Model:   `TitanFloor`. `sampled`: for a pipeline, it is the peak of the rank with the
///          highest floor, in one run with twice as many micro-batches as ranks. With more
///          micro-batches the peak is no lower. Without a pipeline, it is the line through the
///          peaks of three and of four layers. The peak with more layers is not below that line,
///          because it is the maximum over moments that grow by a constant with each layer. If some
///          layers are recomputed, what all of these no longer keep is subtracted. `lighter`: among
///          plans that differ only in how many layers are recomputed, those that recompute fewer.
[[nodiscard]] std::unique_ptr<PlanBounds> titan_bounds(const SearchInputs& inputs);

}  // namespace headroom::plan
