#pragma once

#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::ir::fsdp {

/// Checks hybrid sharding.
///
/// Errors:  kInvalidArgument if the number of replicas does not divide the number of ranks.
[[nodiscard]] Status check_replicas(const ParallelPlan& plan);

/// Checks that the optimizer's step runs on DTensors. The lowering does not ask: rows of runs that
/// ran out of memory before their first step name such optimizers too.
///
/// Errors:  kInvalidArgument for transformers' Adafactor under FSDP2.
/// Source:  huggingface/transformers 5.17 src/transformers/optimization.py, Adafactor.step, whose
///          factors are plain tensors.
[[nodiscard]] Status check_optimizer(const ParallelPlan& plan);

}  // namespace headroom::ir::fsdp
