#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"

/// Keys of what is worked out once for many plans of Megatron-Core. A key is the plan itself, with
/// what makes no difference set to one value, and is compared whole: an option that nobody thought
/// of keeps plans apart, and cannot return another plan's figure.
namespace headroom::plan {

struct PlanKey {
  ir::ParallelPlan plan;
  std::vector<std::int64_t> numbers;  ///< What the figure depends on besides.
  friend bool operator==(const PlanKey&, const PlanKey&) = default;
};

struct PlanKeyHash {
  [[nodiscard]] std::size_t operator()(const PlanKey& key) const;
};

/// What decides the sizes and the order of the tensors of a program, but for what repeats: numbers
/// of ranks, stages, layers and micro-batches, and where the optimizer's states lie.
[[nodiscard]] PlanKey tensors_key(const ir::ParallelPlan& plan, std::vector<std::int64_t> numbers);

/// What decides the parameters, gradients and states of rank `rank`.
[[nodiscard]] PlanKey states_key(const ir::ParallelPlan& plan, ir::Rank rank);

/// What decides the times of a plan's pieces (`block_times`), but for their transfers.
[[nodiscard]] PlanKey pieces_key(const ir::ParallelPlan& plan);

}  // namespace headroom::plan
