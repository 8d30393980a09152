#pragma once

#include "model_ir/base/device_traits.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir::torchtitan {

/// A rank's program of `plan.steps` steps of torchtitan's Trainer: FSDP2 or HSDP, with or without
/// tensor and sequence parallelism, a ring of ranks, a pipeline. Of the ranks of a pipeline's stage
/// it is the first one's.
///
/// Model:   fp32 shards gathered in bf16; embedding, each block, and last norm with head as groups;
///          the logits' fp32 copy and summed cross entropy; norms are always clipped.
/// Phases:  load, stepN: Trainer.train_step with its log.
/// Errors:  kInvalidArgument naming the plan's key, for what is not modelled.
/// Ignores: a few 512-byte tensors of the start (random states, probes of the device).
/// Source:  pytorch/torchtitan 0.2.2 torchtitan/train.py.
[[nodiscard]] Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                                        std::int64_t rank, const DeviceTraits& device);

}  // namespace headroom::ir::torchtitan
