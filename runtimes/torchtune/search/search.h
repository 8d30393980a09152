#pragma once

#include "planner/space/framework_search.h"

namespace headroom::plan {

/// The search axes that only torchtune has. They need no package, but change what the recipe does.
namespace tune_axes {
namespace traits {
inline constexpr AxisTraits kOffloadActivations{
    .order = 295,
    .option = "offload-activations",
    .values = "SWITCH",
    .help = "with --recompute full: the inputs of recomputed layers go to the host: yes, no or any",
    .words = axis_words::switches,
    .within_cells = true};
inline constexpr AxisTraits kOptimizerInBackward{
    .order = 205,
    .option = "optimizer-in-backward",
    .values = "SWITCH",
    .help = "each parameter is updated as soon as its gradient is there: yes, no or any",
    .words = axis_words::switches,
    .within_cells = true};
}  // namespace traits
inline constexpr Axis kOffloadActivations{traits::kOffloadActivations};
inline constexpr Axis kOptimizerInBackward{traits::kOptimizerInBackward};
}  // namespace tune_axes

/// The search of torchtune: its recipes on one GPU, or on FSDP2 with replicas, resharding and
/// offload; recomputation, compilation, activations on the host and the optimizer in backward.
///
/// Model:   weights are stored in bf16, or in fp32 if that is asked for.
[[nodiscard]] const FrameworkSearch& torchtune_search();

}  // namespace headroom::plan
