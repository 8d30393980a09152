#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "runtimes/interface/change.h"

namespace headroom::ir::megatron {

/// Changes to a plan of Megatron-Core that reduce its memory, the cheapest first. Megatron's
/// distributed optimizer counts as ZeRO-1. Requires that the plan has Megatron's part.
[[nodiscard]] std::span<const OwnChange> plan_changes();
/// The decision tree of remedies for such a plan.
[[nodiscard]] std::vector<Change> tree_of_remedies();

/// Plans that reduce the given bottleneck. Against communication: overlap, smaller tensor-parallel
/// groups. Against the pipeline bubble: more chunks, smaller micro-batches, fewer stages. Against
/// offloading: fewer layers on the host.
/// Requires that the plan has Megatron's part.
[[nodiscard]] std::vector<ParallelPlan> faster_plans(Bottleneck bottleneck,
                                                     const ParallelPlan& plan, std::int64_t layers);

}  // namespace headroom::ir::megatron
