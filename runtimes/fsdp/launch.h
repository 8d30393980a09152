#pragma once

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/interface/launch.h"

namespace headroom::ir::fsdp {

/// `accelerate launch` with the arguments of its FSDP plugin.
[[nodiscard]] Launch accelerate_launch(const ModelSpec& model, const ParallelPlan& plan,
                                       const LaunchSite& site);

}  // namespace headroom::ir::fsdp
