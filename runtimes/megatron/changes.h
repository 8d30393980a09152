#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "runtimes/interface/change.h"

namespace headroom::ir::megatron {

/// What can be changed about a plan of Megatron-Core to make it smaller, cheapest first. Its
/// distributed optimizer is ZeRO-1. Requires that the plan has Megatron's part.
[[nodiscard]] std::span<const OwnChange> plan_changes();
/// The decision tree of such a plan.
[[nodiscard]] std::vector<Change> tree_of_remedies();

/// Against communication: overlap, smaller tensor-parallel groups; against the bubble: chunks,
/// smaller micro-batches, fewer stages; against offload: fewer layers on the host.
/// Requires that the plan has Megatron's part.
[[nodiscard]] std::vector<ParallelPlan> faster_plans(Bottleneck bottleneck,
                                                     const ParallelPlan& plan, std::int64_t layers);

}  // namespace headroom::ir::megatron
