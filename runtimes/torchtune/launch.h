#pragma once

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/interface/launch.h"

namespace headroom::ir::torchtune {

/// torchtune's recipe with the keys of its configuration that a plan stands for.
[[nodiscard]] Launch tune_launch(const ModelSpec& model, const ParallelPlan& plan,
                                 const LaunchSite& site);

}  // namespace headroom::ir::torchtune
