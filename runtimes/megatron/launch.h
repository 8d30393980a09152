#pragma once

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/interface/launch.h"

namespace headroom::ir::megatron {

/// Megatron-LM's training script with the arguments that the model and a plan stand for.
[[nodiscard]] Launch megatron_launch(const ModelSpec& model, const ParallelPlan& plan,
                                     const LaunchSite& site);

}  // namespace headroom::ir::megatron
