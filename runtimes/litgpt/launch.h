#pragma once

#include "model_ir/plan/parallel_plan.h"
#include "runtimes/interface/launch.h"

namespace headroom::ir::litgpt {

/// LitGPT's command with the arguments that a plan stands for.
[[nodiscard]] Launch litgpt_launch(const ParallelPlan& plan, const LaunchSite& site);

}  // namespace headroom::ir::litgpt
