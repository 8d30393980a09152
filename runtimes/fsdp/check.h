#pragma once

#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::ir::fsdp {

/// Checks hybrid sharding.
///
/// Errors:  kInvalidArgument if the number of replicas does not divide the number of ranks.
[[nodiscard]] Status check_replicas(const ParallelPlan& plan);

}  // namespace headroom::ir::fsdp
