#pragma once

#include <optional>
#include <set>

#include "planner/search/search.h"

namespace headroom::plan {

/// What a plan is worth: compared in this order, the less the better; then the order of the space.
struct Worth {
  double first = 0;
  double second = 0;
  std::uint64_t number = 0;
  friend auto operator<=>(const Worth&, const Worth&) = default;
};

/// A cell with what is known of all of its plans.
struct BoundedCell {
  Cell cell;
  std::uint64_t first_number = 0;  ///< Of its first plan, in the order of the space.
  Worth bound;                     ///< No plan of it is worth less.
  BlockTimes blocks;
};

/// What one cell came to.
struct CellAnswer {
  std::optional<RatedPlan> best;
  Worth worth;
  std::uint64_t evaluated = 0;
  std::optional<RatedPlan> leanest;  ///< Where nothing fitted.
  std::vector<RatedPlan> front;
};

/// Everything that a search over cells shares.
struct SearchState {
  const SearchQuestion& question;
  PlanMemory& memory;
  std::set<std::uint64_t> refused;  ///< Numbers of plans that their replay refused.
};

[[nodiscard]] Worth worth_of(Objective objective, const ir::ParallelPlan& plan, double seconds,
                             Bytes peak);
/// The worth that no plan of the cell falls below.
[[nodiscard]] BoundedCell bound_cell(const SearchQuestion& question, Cell cell);
/// What the allocator may take under `plan`.
[[nodiscard]] Bytes capacity_of(const SearchQuestion& question, const ir::ParallelPlan& plan);

/// The best plan of `cell` that fits and is worth less than `incumbent`.
///
/// Errors:  those of the lowering.
[[nodiscard]] Result<CellAnswer> search_cell(const SearchState& state, const BoundedCell& cell,
                                             const std::optional<Worth>& incumbent);

}  // namespace headroom::plan
