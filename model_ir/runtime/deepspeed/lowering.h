#pragma once

#include "model_ir/base/device_traits.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir::deepspeed {

/// A Hugging Face model trained by a DeepSpeed engine, as rank 0 of `plan.world` ranks sees it.
///
/// Model:   the transformers runtime's forward and backward with 16-bit parameters; the wrapper
///          that the engine chooses for the ZeRO stage: unfused or fused fp32 masters (0),
///          flattened groups with buckets (1, 2), partitioned parameters (3); optimizer and
///          parameter offload to host memory or NVMe.
/// Phases:  model, optimizer_object, deepspeed.initialize, stepN[.M].forward, .backward,
///          .step_noop, .step, checkpoint-save.
/// Errors:  kInvalidArgument for a precision without an fp32 master copy.
/// Ignores: stage 3 gathers whole layers, where DeepSpeed gathers modules and prefetches by
///          elements; scalars of overflow checks; ZeRO++.
/// Source:  deepspeedai/DeepSpeed 0.19.8, deepspeed/runtime/zero/{stage_1_and_2,stage3}.py,
///          deepspeed/runtime/fp16/{fused,unfused}_optimizer.py.
[[nodiscard]] Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                                        const DeviceTraits& device);

}  // namespace headroom::ir::deepspeed
