#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "planner/search/front.h"
#include "planner/search/search_question.h"
#include "planner/search/search_records.h"
#include "planner/space/framework_search.h"

namespace headroom::plan {

/// What a plan is worth: compared in this order, the less the better; then the order of the space.
struct Worth {
  double first = 0;
  double second = 0;
  std::uint64_t number = 0;
  friend auto operator<=>(const Worth&, const Worth&) = default;
};
[[nodiscard]] Worth worth_of(Objective objective, const ir::ParallelPlan& plan, double seconds,
                             Bytes peak);

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

/// What a visit of one cell came to.
struct CellAnswer {
  std::optional<RatedPlan> best;
  Worth worth;
  std::uint64_t evaluated = 0;
  std::optional<RatedPlan> leanest;     ///< Where nothing fitted; its peak is that of some rank.
  std::optional<RatedPlan> least_host;  ///< Of plans that only the host has no room for.
  std::optional<Next> next;             ///< Nothing: all of the cell has been seen.
};

/// What a cell adds to a front.
struct CellFront {
  std::vector<RatedPlan> plans;
  std::uint64_t evaluated = 0;
};

/// What an evaluator is made from. Whoever keeps an evaluator keeps these.
struct SearchInputs {
  const SearchQuestion& question;
  const cost::DeviceSpec& device;  ///< Its total is the budget.
  SearchRecords& records;
};

struct SearchState;

/// Works out times and peaks of one framework's plans.
///
/// Threads: may be called from any number of threads; answers do not depend on them.
class Evaluator {
 public:
  Evaluator() = default;
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;
  virtual ~Evaluator() = default;

  /// The work of looking into a cell, in units of `kWave`: 1 for closed forms, more for lowering.
  [[nodiscard]] virtual std::size_t work_of_cell() const = 0;
  /// No plan of the cell takes less.
  [[nodiscard]] virtual Seconds least_of_cell(const Cell& cell) = 0;
  /// No plan of the cell needs less; worked out no further than it takes to be above `enough`.
  [[nodiscard]] virtual Bytes cell_floor(const Cell& cell, Bytes enough) = 0;

  /// The best plan of `cell` that fits and is worth less than the incumbent.
  ///
  /// Errors:  those of the lowering.
  [[nodiscard]] virtual Result<CellAnswer> search(const SearchState& state, const BoundedCell& cell,
                                                  const Visit& visit) = 0;
  /// One plan of `cell`, if it fits: that which recomputes every layer and shares all states.
  ///
  /// Errors:  those of the lowering.
  [[nodiscard]] virtual Result<CellAnswer> leanest(const SearchState& state,
                                                   const BoundedCell& cell) = 0;
  /// The plans of `cell`, none of which needs less than `floor`, that fit and that neither `front`
  /// nor another of them beats.
  ///
  /// Errors:  those of the lowering.
  [[nodiscard]] virtual Result<CellFront> front(const SearchState& state, const BoundedCell& cell,
                                                Bytes floor, const Front& front) = 0;
  /// The peak over all ranks of a `CellAnswer::leanest`.
  ///
  /// Errors:  those of the lowering.
  [[nodiscard]] virtual Result<Bytes> peak(const RatedPlan& leanest) { return leanest.peak; }
  /// Adds how peaks came about.
  virtual void add_counts(MemoryCounts& counts) const = 0;
};

/// Everything that a search over cells shares.
struct SearchState {
  const SearchQuestion& question;
  std::map<const FrameworkSearch*, std::unique_ptr<Evaluator>> evaluators;
  std::set<std::uint64_t> refused;  ///< Numbers of plans that their replay refused.

  [[nodiscard]] Evaluator& of(const Cell& cell) const { return *evaluators.at(cell.framework); }
};

/// The state of a search over `cells`, with an evaluator for each of their frameworks.
[[nodiscard]] SearchState search_state(const SearchInputs& inputs, const std::vector<Cell>& cells);

/// Work (`Evaluator::work_of_cell`) between two settlements of what the best plan, or the front,
/// is. Fixed, so that counts do not depend on threads.
inline constexpr std::size_t kWave = 16;
/// More than any device has.
inline constexpr Bytes kMostBytes{INT64_MAX};

/// Notes a plan that is too large for the device or for the host; false: it fits.
[[nodiscard]] bool keep_too_large(const RatedPlan& plan, CellAnswer& answer);

/// The worth that no plan of the cell falls below.
[[nodiscard]] BoundedCell bound_cell(const SearchState& state, Cell cell);
/// What the allocator may take under `plan`.
[[nodiscard]] Bytes capacity_of(const SearchQuestion& question, const ir::ParallelPlan& plan);
/// Whether the first plan of a cell that fits, by time, is the best of it.
[[nodiscard]] bool stops_at_first(const SearchQuestion& question);

}  // namespace headroom::plan
