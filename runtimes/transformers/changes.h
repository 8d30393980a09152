#pragma once

#include <optional>
#include <span>

#include "model_ir/plan/parallel_plan.h"
#include "runtimes/interface/change.h"

/// Changes that make a plan of transformers' Trainer smaller.
namespace headroom::ir::transformers {

/// All of them, cheapest first.
[[nodiscard]] std::span<const OwnChange> plan_changes();

[[nodiscard]] std::optional<ParallelPlan> fused_loss(const ParallelPlan& plan,
                                                     const DeviceTypes& device);
/// 16-bit norms and embeddings beside quantised weights.
[[nodiscard]] std::optional<ParallelPlan> unprepared(const ParallelPlan& plan,
                                                     const DeviceTypes& device);
/// Liger's kernels.
[[nodiscard]] std::optional<ParallelPlan> fused_kernels(const ParallelPlan& plan,
                                                        const DeviceTypes& device);
[[nodiscard]] std::optional<ParallelPlan> adapters(const ParallelPlan& plan,
                                                   const DeviceTypes& device);
/// QLoRA: adapters on 4-bit weights, with paged states in 8 bits.
[[nodiscard]] std::optional<ParallelPlan> quantised_adapters(const ParallelPlan& plan,
                                                             const DeviceTypes& device);

}  // namespace headroom::ir::transformers
