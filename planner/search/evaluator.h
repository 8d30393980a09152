#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "planner/search/front.h"
#include "planner/search/search_question.h"
#include "planner/search/search_records.h"
#include "planner/space/framework_search.h"

namespace headroom::plan {

/// The order of plans under an objective: less is better. Members are compared in this order, and
/// then plans by their number in the space.
struct Worth {
  bool late = false;  ///< The step is longer than `SearchQuestion::longest` allows.
  double first = 0;
  double second = 0;
  std::uint64_t number = 0;
  friend auto operator<=>(const Worth&, const Worth&) = default;
};
/// The worth of `plan` under the question's objective. Late plans are ordered by their time alone.
[[nodiscard]] Worth worth_of(const SearchQuestion& question, const ir::ParallelPlan& plan,
                             double seconds, Bytes peak);

/// The worth of a plan of worth `worth` whose time is `factor` times as long; at most 1. A late
/// plan may then be in time, and is worth no less than this.
[[nodiscard]] Worth scaled_worth(const SearchQuestion& question, Worth worth, double factor);

/// The figure that an objective asks for, for a plan of `sequence` tokens whose worth begins with
/// `first`: seconds of a step, GPUs, bytes, GPU seconds, sequences or tokens.
[[nodiscard]] double value_of(Objective objective, double first, std::int64_t sequence);

/// A cell and the bounds of its plans.
struct BoundedCell {
  Cell cell;
  std::uint64_t first_number = 0;  ///< Number of its first plan in the order of the space.
  Worth bound;                     ///< Lower bound of the worth of its plans.
  double seconds = 0;              ///< Lower bound of the step time of its plans.
};

/// A plan of a cell and its time.
struct Timed {
  double seconds = 0;
  std::uint64_t index = 0;
  friend auto operator<=>(const Timed&, const Timed&) = default;
};

/// The range of plans, by time, that a visit of a cell looks at.
struct Visit {
  std::optional<Worth> incumbent;     ///< Only plans that are better than this are of interest.
  std::optional<Worth> limit;         ///< Plans beyond this are left for a later visit.
  std::optional<Timed> after;         ///< The last plan of the previous visit.
  std::uint64_t effort = UINT64_MAX;  ///< `SearchQuestion::effort` of this visit.
  /// The best replay of all, and the replayed times of plans of this cell; empty if the search does
  /// not go by replays.
  std::optional<Worth> best_replay{};
  std::span<const Timed> replayed{};
};

/// The place at which the next visit of a cell continues.
struct Next {
  double seconds = 0;
  Worth bound;
  std::optional<Timed> after;
};

/// A plan and its worth.
struct WorthyPlan {
  Worth worth;
  RatedPlan plan;
};

/// The result of one visit of a cell.
struct CellAnswer {
  std::optional<RatedPlan> best;
  Worth worth;
  std::vector<WorthyPlan> others;  ///< Other plans that fit and that were evaluated, too.
  /// The share of evaluated times that replays may do without, beside `Evaluator::time_error`.
  double uncertain = 0;
  std::uint64_t evaluated = 0;
  std::uint64_t events = 0;          ///< The events of evaluated plans that are new to the search.
  std::optional<RatedPlan> leanest;  ///< If nothing fitted; its peak is that of one rank.
  std::optional<RatedPlan> least_host;  ///< The one that needs least host memory, of plans that
                                        ///< the host has no room for and the device may have.
  std::vector<Error> refusals{};        ///< The refusals of plans that cannot be lowered.
  std::optional<Next> next;             ///< None: all plans of the cell have been looked at.
};

/// Plans of a cell that may be in the Pareto front.
struct CellFront {
  std::vector<RatedPlan> plans;
  std::uint64_t evaluated = 0;
  bool whole = true;  ///< Whether all plans were looked at before the search was to end.
};

/// The inputs of an evaluator. Its owner must keep them alive.
struct SearchInputs {
  const SearchQuestion& question;
  const cost::DeviceSpec& device;  ///< Its total is the budget.
  SearchRecords& records;
};

struct SearchState;

/// The allowed error of an evaluated step against its replay, as a ratio: a replay takes at
/// least the evaluated time divided by one more than this.
struct TimeError {
  double of_space = 0;
  /// The same for the other plans of a cell in relation to the plan of the cell with the shortest
  /// evaluated time, whose replay is known.
  double of_cell = 0;
};

/// Evaluates times and peaks of plans of one framework.
///
/// Threads: may be called from any number of threads; answers do not depend on them.
class Evaluator {
 public:
  Evaluator() = default;
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;
  virtual ~Evaluator() = default;

  /// The work of one cell in units of `kWave`: 1 for closed forms, more for lowering.
  [[nodiscard]] virtual std::size_t work_of_cell() const = 0;
  /// By default evaluated times are those of the replay.
  [[nodiscard]] virtual TimeError time_error() const { return {}; }
  /// A lower bound of the step time of all plans of the cell.
  [[nodiscard]] virtual Seconds least_of_cell(const Cell& cell) = 0;
  /// A lower bound of the memory of all plans of the cell for which nothing is lowered.
  [[nodiscard]] virtual Bytes held_floor(const Cell& cell) const = 0;
  /// A lower bound of the memory of all plans of the cell. Its computation stops once it is above
  /// `enough`.
  [[nodiscard]] virtual Bytes cell_floor(const Cell& cell, Bytes enough) = 0;

  /// The best plan of `cell` that fits and is better than the incumbent.
  ///
  /// Errors:  those of the lowering.
  [[nodiscard]] virtual Result<CellAnswer> search(const SearchState& state, const BoundedCell& cell,
                                                  const Visit& visit) = 0;
  /// The leanest plan of `cell` if it fits: the plan that recomputes every layer and shards all
  /// states.
  ///
  /// Errors:  those of the lowering.
  [[nodiscard]] virtual Result<CellAnswer> leanest(const SearchState& state,
                                                   const BoundedCell& cell) = 0;
  /// The plans of `cell` that fit and that neither `front` nor other plans of the cell dominate.
  /// `floor` is a lower bound of their memory.
  ///
  /// Errors:  those of the lowering.
  [[nodiscard]] virtual Result<CellFront> front(const SearchState& state, const BoundedCell& cell,
                                                Bytes floor, const Front& front) = 0;
  /// The peak over all ranks of the plan `CellAnswer::leanest`.
  ///
  /// Errors:  those of the lowering.
  [[nodiscard]] virtual Result<Bytes> peak(const RatedPlan& leanest) { return leanest.peak; }
  /// Adds this evaluator's counts of how peaks were evaluated.
  virtual void add_counts(MemoryCounts& counts) const = 0;
};

/// The state that all cells of a search share.
struct SearchState {
  const SearchQuestion& question;
  std::map<const FrameworkSearch*, std::unique_ptr<Evaluator>> evaluators;
  std::set<std::uint64_t> refused;  ///< Numbers of plans that do not fit when replayed.
  const LoweredRecords& lowered;
  std::uint64_t lowered_before = 0;  ///< Events that had been lowered when the search began.

  /// What is left of `SearchQuestion::effort` after plans with `evaluated` events. Evaluating a
  /// plan that an earlier search lowered is an eighth of the work, so that every search ends.
  [[nodiscard]] std::uint64_t effort_left(std::uint64_t evaluated) const {
    constexpr std::uint64_t kShareOfKnown = 8;
    const std::uint64_t spent = lowered.events() - lowered_before + evaluated / kShareOfKnown;
    return question.effort == 0 ? UINT64_MAX : question.effort - std::min(spent, question.effort);
  }

  [[nodiscard]] Evaluator& of(const Cell& cell) const { return *evaluators.at(cell.framework); }
};

/// The work (`Evaluator::work_of_cell`) of a wave: the cells that are looked into in parallel
/// before the best plan, or the front, is updated. It is fixed, so that counts do not depend on
/// threads.
inline constexpr std::size_t kWave = 16;
/// More than any device has.
inline constexpr Bytes kMostBytes{INT64_MAX};

/// Notes a plan that is too large for the device or for the host; false: it fits.
[[nodiscard]] bool keep_too_large(const RatedPlan& plan, CellAnswer& answer);

/// Whether `error` refuses one plan, so that the search goes on without it.
[[nodiscard]] bool is_refusal(const Error& error);

/// Bounds the worth of the plans of a cell from below.
[[nodiscard]] BoundedCell bound_cell(const SearchState& state, Cell cell);
/// The load of the busiest rank's experts (`SearchQuestion::imbalance`).
[[nodiscard]] double load_of(const SearchQuestion& question, const ir::ParallelPlan& plan);
/// Replays `plan` in `budget` (0: the device's total) and judges it (`SearchQuestion::judge`).
///
/// Errors:  those of `cost::estimate`.
[[nodiscard]] Result<cost::StepEstimate> judged_replay(const SearchQuestion& question,
                                                       const ir::ParallelPlan& plan, Bytes budget,
                                                       const cost::Machine* machine = nullptr);
/// Whether the search is to end now: it was stopped, or it is one for plans that fit at once
/// (`SearchQuestion::at_once`) and has refused many.
[[nodiscard]] bool has_to_stop(const SearchState& state);
/// Whether a replay fits with the confidence that is asked for.
[[nodiscard]] bool is_accepted(const SearchQuestion& question, const cost::StepEstimate& replayed);
/// What the allocator may take under `plan` (`SearchQuestion::room`).
[[nodiscard]] Bytes capacity_of(const SearchQuestion& question, const ir::ParallelPlan& plan);
/// Whether the fastest plan of a cell that fits is the best of the cell.
[[nodiscard]] bool stops_at_first(const SearchQuestion& question);

}  // namespace headroom::plan
