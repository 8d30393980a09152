#pragma once

#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::ir::fsdp {

/// Errors:  kInvalidArgument where the replicas of hybrid sharding do not divide the ranks.
[[nodiscard]] Status check_replicas(const ParallelPlan& plan);

}  // namespace headroom::ir::fsdp
