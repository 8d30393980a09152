#pragma once

#include "planner/space/framework_search.h"

namespace headroom::plan {

/// The search axis that only DeepSpeed has.
namespace deepspeed_axes {
inline constexpr AxisTraits kZeroTraits{.order = 360,
                                        .option = "zero",
                                        .values = "STAGE,..",
                                        .help = "ZeRO stage: 0, 1, 2 or 3",
                                        .demanded = true};
inline constexpr Axis kZero{kZeroTraits};
}  // namespace deepspeed_axes

/// The search for DeepSpeed: ZeRO stages, offload, the optimizer's share on the host, and the axes
/// of transformers' models.
[[nodiscard]] const FrameworkSearch& deepspeed_search();

}  // namespace headroom::plan
