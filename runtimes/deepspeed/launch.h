#pragma once

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/interface/launch.h"

namespace headroom::ir::deepspeed {

/// DeepSpeed's launcher with the configuration that `emit` writes.
[[nodiscard]] Launch deepspeed_launch(const ModelSpec& model, const ParallelPlan& plan,
                                      const LaunchSite& site);

}  // namespace headroom::ir::deepspeed
