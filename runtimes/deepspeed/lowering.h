#pragma once

#include "model_ir/base/device_traits.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir::deepspeed {

/// The program of rank `rank` of `plan.world` when a DeepSpeed engine trains a Hugging Face model.
///
/// Model:   forward and backward are those of the transformers runtime. The engine chooses the
///          wrapper: at stage 0 fp32 masters of each parameter, flattened masters for FusedAdam, or
///          in fp32 the optimizer alone; at stages 1 and 2 flattened groups with buckets, or at
///          stage 1 BF16_Optimizer if gradients are accumulated in fp32; at stage 3 partitioned
///          parameters. There are one or two parameter groups. Optimizer and parameters can be
///          offloaded to host memory or NVMe.
/// Phases:  model, optimizer_object, deepspeed.initialize, stepN[.M].forward, .backward,
///          .step_noop, .step, evaluation, checkpoint-save. If DeepSpeed resets torch's peaks
///          during initialize, the part before is the phase deepspeed.initialize.flatten.
/// Errors:  kInvalidArgument for a precision without an fp32 master copy.
/// Ignores: reduce_scatter and use_multi_rank_bucket_allreduce when they are switched off.
/// Source:  deepspeedai/DeepSpeed 0.19.8, deepspeed/runtime/zero/{stage_1_and_2,stage3}.py,
///          deepspeed/runtime/fp16/{fused,unfused}_optimizer.py.
[[nodiscard]] Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                                        std::int64_t rank, const DeviceTraits& device);

}  // namespace headroom::ir::deepspeed
