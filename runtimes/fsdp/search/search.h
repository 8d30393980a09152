#pragma once

#include "planner/space/framework_search.h"

namespace headroom::plan {

/// How FSDP2 is searched: replicas, resharding, offload, and what transformers' models have.
///
/// Model:   shards are in fp32; the policy computes in bf16 or in fp32. fp16 is not searched.
[[nodiscard]] const FrameworkSearch& fsdp_search();

}  // namespace headroom::plan
