#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model_ir/base/device_traits.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "planner/space/axis.h"

namespace headroom::plan {

/// The plans among which the best is sought.
struct SpaceQuestion {
  const ir::ModelSpec& model;
  /// What no axis says: allocator, steps. Its sequence, world, precision and optimizer are the only
  /// ones of their axes where these are free.
  ir::ParallelPlan base;
  std::int64_t global_batch = 1;  ///< Sequences of a step, all ranks together.
  Constraints constraints;
  DeviceTraits device{};  ///< Which products in 8 bits there are.
};

/// Plans that differ only in `choices_of`: degrees, micro-batch and what else decides the sizes of
/// tensors are the same.
struct Cell {
  ir::ParallelPlan plan;  ///< Its first choice.
  std::uint64_t choices = 0;
};

/// All cells, in a fixed order.
///
/// Model:   degrees divide what they cut (heads, layers, experts, columns, GPUs), the micro-batch
///          divides the batch of a data-parallel rank, and `ir::check_plan` accepts the plan, and
///          the device its recipe: what the runtime refuses is not in the space.
[[nodiscard]] std::vector<Cell> cells_of(const SpaceQuestion& question);

/// The choices of a cell: what is recomputed, and switches that change no tensor's size.
struct Choices {
  /// `Cell::plan` with each recomputation; of torchtitan's code with each schedule and switch, too.
  std::vector<ir::ParallelPlan> recomputations;
  std::vector<ir::MegatronPlan> switches;  ///< With each setting; one of the other runtimes.
};
[[nodiscard]] Choices choices_of(const SpaceQuestion& question, const Cell& cell);
/// Plan number `index` of a cell: `index = recomputation * switches + switch`.
[[nodiscard]] ir::ParallelPlan plan_at(const Choices& choices, std::uint64_t index);

/// Number of plans.
[[nodiscard]] std::uint64_t count_plans(const std::vector<Cell>& cells);

}  // namespace headroom::plan
