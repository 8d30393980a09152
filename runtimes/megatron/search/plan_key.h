#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"

/// Keys of figures that are computed once for many plans of Megatron-Core. A key is the plan
/// itself, in which options without influence are set to one value. Keys are compared whole, so a
/// forgotten option keeps plans apart and cannot return another plan's figure.
namespace headroom::plan {

struct PlanKey {
  ir::ParallelPlan plan;
  std::vector<std::int64_t> numbers;  ///< What else the figure depends on.
  friend bool operator==(const PlanKey&, const PlanKey&) = default;
};

struct PlanKeyHash {
  [[nodiscard]] std::size_t operator()(const PlanKey& key) const;
};

/// Key of everything that determines the sizes and the order of a program's tensors. It leaves out
/// what repeats (numbers of ranks, stages, layers and micro-batches) and where the optimizer's
/// states are.
[[nodiscard]] PlanKey tensors_key(const ir::ParallelPlan& plan, std::vector<std::int64_t> numbers);

/// Key of everything that determines the parameters, gradients and states of rank `rank`.
[[nodiscard]] PlanKey states_key(const ir::ParallelPlan& plan, ir::Rank rank);

/// Key of everything that determines the times of a plan's pieces (`block_times`), except their
/// transfers.
[[nodiscard]] PlanKey pieces_key(const ir::ParallelPlan& plan);

}  // namespace headroom::plan
