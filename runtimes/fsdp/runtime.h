#pragma once

#include <string>

#include "runtimes/interface/runtime.h"

namespace headroom::ir::fsdp {

/// A model of transformers under FSDP2 or FSDP1.
[[nodiscard]] const Runtime& runtime();

/// What a rank holds of a plan whose parameters FSDP shards.
[[nodiscard]] HeldParameters held_shards(const ParallelPlan& plan);

/// The execution of such a plan (`Runtime::execution`). A plan without FSDP shards nothing.
[[nodiscard]] PlanExecution sharded_execution(const ModelSpec& model, const ParallelPlan& plan);

/// A line that describes such a plan, without the framework's name (`Runtime::describe`).
[[nodiscard]] std::string sharding_words(const ParallelPlan& plan);

/// The precision; empty for bf16 arithmetic, whose parameters FSDP keeps in their own type.
[[nodiscard]] std::string precision_words(const ParallelPlan& plan);

/// The precision in which the model computes: bf16 if parameters are gathered in it.
[[nodiscard]] Precision arithmetic_precision(const ParallelPlan& plan);

/// The type of matrix products, which is that of the gathered parameters.
[[nodiscard]] DType gathered_dtype(const ParallelPlan& plan);

}  // namespace headroom::ir::fsdp
