#pragma once

#include <cstddef>
#include <optional>
#include <set>

#include "planner/evaluate/lowered_plan.h"
#include "planner/evaluate/sampled_blocks.h"
#include "planner/search/search.h"

namespace headroom::plan {

/// Cells that are looked into between two settlements of what the best plan, or the front, is.
/// Fixed, so that counts do not depend on threads.
inline constexpr std::size_t kWave = 16;

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
  double seconds = 0;              ///< No plan of it takes less.
};

/// A plan of a cell and its time.
struct Timed {
  double seconds = 0;
  std::uint64_t index = 0;
  friend auto operator<=>(const Timed&, const Timed&) = default;
};

/// From where and how far the plans of a cell are looked at, by time.
struct Visit {
  std::optional<Worth> incumbent;  ///< Plans that are worth no less are left out.
  std::optional<Worth> limit;      ///< Plans beyond it are left for later.
  std::optional<Timed> after;      ///< The last that an earlier visit looked at.
};

/// Where the next visit of a cell goes on.
struct Next {
  double seconds = 0;
  Worth bound;
  std::optional<Timed> after;
};

/// What one cell came to.
struct CellAnswer {
  std::optional<RatedPlan> best;
  Worth worth;
  std::uint64_t evaluated = 0;
  std::optional<RatedPlan> leanest;  ///< Where nothing fitted; its peak is that of some rank.
  std::optional<Next> next;          ///< Nothing: all of the cell has been seen.
};

/// Everything that a search over cells shares.
struct SearchState {
  const SearchQuestion& question;
  PlanMemory& memory;
  LoweredPlans& lowered;
  SampledBlocks& blocks;
  std::set<std::uint64_t> refused;  ///< Numbers of plans that their replay refused.
};

[[nodiscard]] Worth worth_of(Objective objective, const ir::ParallelPlan& plan, double seconds,
                             Bytes peak);
/// `plan` with the switches that leave fewest optimizer states on the device, of those allowed.
[[nodiscard]] ir::ParallelPlan least_states(const Constraints& allowed,
                                            const ir::ParallelPlan& plan);
/// The worth that no plan of the cell falls below.
[[nodiscard]] BoundedCell bound_cell(const SearchState& state, Cell cell);
/// What the allocator may take under `plan`.
[[nodiscard]] Bytes capacity_of(const SearchQuestion& question, const ir::ParallelPlan& plan);

/// Whether the first plan of a cell that fits, by time, is the best of it.
[[nodiscard]] bool stops_at_first(const SearchQuestion& question);

/// The best plan of `cell` that fits and is worth less than the incumbent.
///
/// Errors:  those of the lowering.
[[nodiscard]] Result<CellAnswer> search_cell(const SearchState& state, const BoundedCell& cell,
                                             const Visit& visit);

/// The same of a cell whose plans are lowered whole.
[[nodiscard]] Result<CellAnswer> search_lowered_cell(const SearchState& state,
                                                     const BoundedCell& cell, const Visit& visit);

/// One plan of `cell`, if it fits: that which recomputes every layer and shares all states.
///
/// Errors:  those of the lowering.
[[nodiscard]] Result<CellAnswer> leanest_of_cell(const SearchState& state, const BoundedCell& cell);

/// The same of a cell whose plans are lowered whole.
[[nodiscard]] Result<CellAnswer> leanest_of_lowered_cell(const SearchState& state,
                                                         const BoundedCell& cell);

}  // namespace headroom::plan
