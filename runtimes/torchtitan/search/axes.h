#pragma once

#include "planner/space/axis.h"

/// Axes that only torchtitan has.
namespace headroom::plan::titan_axes {

namespace traits {
inline constexpr AxisTraits kPipelineRuns{
    .order = 60,
    .option = "pipeline-runs",
    .values = "N,..",
    .help = "how many times per step the pipeline is filled and drained",
    .absent = 1};
inline constexpr AxisTraits kRecomputeEvery{
    .order = 270,
    .option = "recompute-every",
    .values = "N,..",
    .help = "with --recompute full: recompute every Nth layer",
    .absent = 1};
inline constexpr AxisTraits kCompiled{.order = 280,
                                      .option = "compile",
                                      .values = "SWITCH",
                                      .help = "torch.compile of the blocks: yes, no or any",
                                      .words = axis_words::switches};
}  // namespace traits

inline constexpr Axis kPipelineRuns{traits::kPipelineRuns};
inline constexpr Axis kRecomputeEvery{traits::kRecomputeEvery};
inline constexpr Axis kCompiled{traits::kCompiled};

}  // namespace headroom::plan::titan_axes
