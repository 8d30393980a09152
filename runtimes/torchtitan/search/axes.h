#pragma once

#include "planner/space/axis.h"

/// The axis that only torchtitan has.
namespace headroom::plan::titan_axes {

namespace traits {
inline constexpr AxisTraits kPipelineRuns{
    .order = 60,
    .option = "pipeline-runs",
    .values = "N,..",
    .help = "how many times per step the pipeline is filled and drained",
    .absent = 1};
}  // namespace traits

inline constexpr Axis kPipelineRuns{traits::kPipelineRuns};

}  // namespace headroom::plan::titan_axes
