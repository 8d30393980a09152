#pragma once

#include "model_ir/base/device_traits.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir::litgpt {

/// The program of `plan.steps` steps of `litgpt finetune` (full or lora) on one GPU.
///
/// Model:  Fabric's "bf16-true": parameters, gradients and states are bf16, and logits are returned
///         in fp32. The names of logits and loss refer to them until the next micro-batch replaces
///         them.
/// Errors: kInvalidArgument, which names the plan's key, for what is not modelled.
/// Source: Lightning-AI/litgpt of April 2024 (3bd08dd), litgpt/finetune/lora.py and full.py.
[[nodiscard]] Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                                        const DeviceTraits& device);

}  // namespace headroom::ir::litgpt
