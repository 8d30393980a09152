#pragma once

#include "planner/space/framework_search.h"

namespace headroom::plan {

/// The search of LitGPT: micro-batches on one GPU, with weights in bf16 and its own attention and
/// loss; adapters on 16-bit or 4-bit weights.
[[nodiscard]] const FrameworkSearch& litgpt_search();

}  // namespace headroom::plan
