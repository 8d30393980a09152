#pragma once

#include "planner/space/framework_search.h"

namespace headroom::plan {

/// The search for FSDP2: replicas, resharding, offload, and the axes of transformers' models.
///
/// Model:   shards are fp32; the mixed-precision policy computes in bf16 or in fp32. fp16 is not
///          searched.
[[nodiscard]] const FrameworkSearch& fsdp_search();

}  // namespace headroom::plan
