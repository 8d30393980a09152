#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <set>
#include <vector>

#include "planner/search/evaluator.h"

namespace headroom::plan {

/// A plan that fits according to the fast evaluation.
struct RankedPlan {
  Worth worth;  ///< Its worth if its replay is as short as the error of its time permits.
  RatedPlan plan;
  std::size_t cell = 0;  ///< Index of its cell.
};

/// The plans of a space that fit, the best first.
///
/// Model:   best-first branch and bound. The cell, or the rest of a cell, with the lowest bound is
///          always looked into next, in waves of a fixed number of cells that are searched in
///          parallel. A plan comes out once no cell can have a better one. Neither the order nor
///          the counts depend on the number of threads.
class PlanStream {
 public:
  /// The times that order plans.
  enum class Times : std::uint8_t {
    kEvaluated,  ///< Those of the fast evaluation.
    kLeast,      ///< The least that a replay can give (`Evaluator::time_error`).
  };

  /// Keeps references to the first two arguments.
  PlanStream(const SearchState& state, const std::vector<BoundedCell>& cells, Times times);

  /// The next plan. Nothing if there is none, if no other plan can be better than `cutoff`, or if
  /// the search was stopped before that is known.
  ///
  /// Errors:  those of the lowering.
  [[nodiscard]] Result<std::optional<RankedPlan>> next(const std::optional<Worth>& cutoff);

  /// A lower bound of the worth of the plans that have not come out; nothing if there are none.
  [[nodiscard]] std::optional<Worth> least() const;
  /// Whether `next` ended because of the limit of work or because the user stopped the search.
  [[nodiscard]] bool stopped() const { return stopped_; }

  /// Takes into account that `plan`, which came out, takes `seconds` when it is replayed.
  void note_replay(const RankedPlan& plan, double seconds);
  /// Leaves out the other plans of a cell.
  void leave_out(std::size_t cell) { left_out_.insert(cell); }
  /// The best plan for reports of progress.
  void note_best(const Worth& worth, double seconds);
  void tell() const;

  /// Counts, refusals, and the leanest plans of the cells in which nothing fitted.
  [[nodiscard]] const PlanResult& seen() const { return seen_; }

 private:
  /// A cell, or the rest of a visited cell, that has not been searched yet.
  struct Open {
    Worth bound;  ///< A bound by the times that order plans.
    Worth form;   ///< The same for times of the fast evaluation.
    double seconds = 0;
    std::size_t cell = 0;
    std::optional<Timed> after;
    bool again = false;  ///< Whether it has been visited before.
    friend bool operator>(const Open& a, const Open& b) { return a.bound > b.bound; }
  };
  struct Ready {
    RankedPlan plan;
    Worth form;  ///< Worth by the time of the fast evaluation.
    friend bool operator<(const Ready& a, const Ready& b) { return a.plan.worth < b.plan.worth; }
  };

  /// The least ratio of a replayed to an evaluated time in a cell.
  [[nodiscard]] double factor_of(std::size_t cell) const;
  [[nodiscard]] Worth scaled(const Worth& worth, double factor) const;
  /// Removes what was left out, and moves entries whose bound has risen, until the first entries of
  /// both queues are right.
  void settle_first();
  [[nodiscard]] bool is_hopeless(const Worth& bound, const std::optional<Worth>& cutoff) const;
  [[nodiscard]] bool may_come_out() const;
  [[nodiscard]] bool is_long() const;
  [[nodiscard]] bool is_stopped();
  /// Whether the work that the question allows has been done (`SearchQuestion::work_limit` and
  /// `effort`).
  [[nodiscard]] bool is_worked_off() const;
  [[nodiscard]] Visit visit_of(const Open& open, const std::optional<Worth>& cutoff) const;
  [[nodiscard]] std::uint64_t effort_of_visit(std::size_t visits) const;
  [[nodiscard]] CellAnswer unvisited(const Open& open) const;
  [[nodiscard]] Status wave(const std::optional<Worth>& cutoff);
  [[nodiscard]] Status dive();
  void settle(std::size_t cell, CellAnswer answer);
  void add(std::size_t cell, const Worth& form, RatedPlan plan);

  const SearchState& state_;
  const std::vector<BoundedCell>& cells_;
  Times times_;
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open_;
  std::multiset<Ready> ready_;
  std::set<std::uint64_t> known_;  ///< Numbers of the plans that are or were ready.
  std::vector<double> ratios_;     ///< By cell: the ratio of times of its first replayed plan.
  std::vector<std::vector<Timed>> replayed_;  ///< By cell: replayed times, by index in the cell.
  std::vector<double> uncertain_;             ///< `CellAnswer::uncertain`, by cell.
  std::set<std::size_t> left_out_;
  std::uint64_t evaluated_events_ = 0;  ///< `CellAnswer::events` of all visits.
  std::uint64_t visited_ = 0;           ///< Number of cells.
  std::set<std::size_t> refused_;       ///< Visited cells whose plans were all refused so far.
  std::size_t waves_ = 0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  bool dived_ = false;
  bool stopped_ = false;
  PlanResult seen_;
  std::optional<Worth> best_;
  double best_seconds_ = 0;
};

}  // namespace headroom::plan
