#pragma once

#include "model_ir/base/device_traits.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir::deepspeed {

/// A Hugging Face model trained by a DeepSpeed engine, as `rank` of `plan.world` ranks sees it.
///
/// Model:   the transformers runtime's forward and backward; the wrapper that the engine chooses:
///          fp32 masters of each parameter, or flattened for FusedAdam (stage 0), the optimizer
///          alone (fp32 at stage 0), flattened groups with buckets (1, 2), BF16_Optimizer (1,
///          gradients accumulated in fp32), partitioned parameters (3); one or two parameter
///          groups; optimizer and parameter offload to host memory or NVMe.
/// Phases:  model, optimizer_object, deepspeed.initialize (before it deepspeed.initialize.flatten,
///          where DeepSpeed sets torch's peaks back under way), stepN[.M].forward, .backward,
///          .step_noop, .step, evaluation, checkpoint-save.
/// Errors:  kInvalidArgument for a precision without an fp32 master copy.
/// Ignores: reduce_scatter and use_multi_rank_bucket_allreduce switched off.
/// Source:  deepspeedai/DeepSpeed 0.19.8, deepspeed/runtime/zero/{stage_1_and_2,stage3}.py,
///          deepspeed/runtime/fp16/{fused,unfused}_optimizer.py.
[[nodiscard]] Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                                        std::int64_t rank, const DeviceTraits& device);

}  // namespace headroom::ir::deepspeed
