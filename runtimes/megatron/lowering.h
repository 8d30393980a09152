#pragma once

#include "model_ir/base/device_traits.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir::megatron {

/// Lowers `model` for rank `rank` of a Megatron-Core run with Transformer Engine modules.
///
/// Phases: model, ddp, optimizer_object, then stepN.forward_backward and stepN.optimizer.
/// Errors: kInvalidArgument naming the option if plan, model and runtime do not fit together.
/// Source: NVIDIA/Megatron-LM megatron/core 0.16.1, NVIDIA/TransformerEngine 2.11.
[[nodiscard]] Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                                        std::int64_t rank, const DeviceTraits& device);

}  // namespace headroom::ir::megatron
