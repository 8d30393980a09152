#pragma once

#include "model_ir/base/device_traits.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir::torchtitan {

/// The program of one rank for `plan.steps` steps of torchtitan's Trainer: FSDP2 or HSDP, with or
/// without tensor and sequence parallelism, context parallelism, and a pipeline. For the ranks of a
/// pipeline's stage it is the program of the first one.
///
/// Model:   fp32 shards are gathered in bf16. The groups are the embedding, each block, and the
///          last norm with the head. The loss copies the logits to fp32 and sums the cross entropy.
///          Gradient norms are always clipped.
/// Phases:  load, stepN: Trainer.train_step with its log.
/// Errors:  kInvalidArgument naming the plan's key, for what is not modelled.
/// Ignores: a few 512-byte tensors of the start (random states, probes of the device).
/// Source:  pytorch/torchtitan 0.2.2 torchtitan/train.py.
[[nodiscard]] Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                                        std::int64_t rank, const DeviceTraits& device);

}  // namespace headroom::ir::torchtitan
