#pragma once

#include "planner/space/framework_search.h"

namespace headroom::plan {

/// How DeepSpeed is searched: ZeRO stages, offload, the optimizer's share on the host, and what
/// transformers' models have.
[[nodiscard]] const FrameworkSearch& deepspeed_search();

}  // namespace headroom::plan
