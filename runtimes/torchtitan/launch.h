#pragma once

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/interface/launch.h"

namespace headroom::ir::torchtitan {

/// torchtitan's trainer with the overrides of its configuration that a plan stands for.
[[nodiscard]] Launch titan_launch(const ModelSpec& model, const ParallelPlan& plan,
                                  const LaunchSite& site);

}  // namespace headroom::ir::torchtitan
