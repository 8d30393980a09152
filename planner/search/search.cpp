#include "planner/search/search.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "planner/search/cell_window.h"
#include "planner/search/evaluator.h"
#include "planner/search/front_search.h"
#include "planner/search/in_parallel.h"
#include "planner/search/plan_stream.h"
#include "planner/space/all_axes.h"
#include "planner/space/refusal.h"

namespace headroom::plan {
namespace {

/// The reason why a search evaluated nothing, if all frameworks of the space refused what was asked
/// of them when it was lowered.
std::optional<Error> refused_everywhere(const PlanResult& result,
                                        const std::vector<const FrameworkSearch*>& frameworks) {
  const auto is_refused = [&](const FrameworkSearch* framework) {
    return std::ranges::find(result.refused, framework, &Refused::framework) !=
           result.refused.end();
  };
  const bool nothing = !result.best && !result.leanest && !result.least_host &&
                       result.evaluated == 0 && result.status == PlanStatus::kInfeasible;
  return nothing && !result.refused.empty() && std::ranges::all_of(frameworks, is_refused)
             ? std::optional(result.refused.front().error)
             : std::nullopt;
}

enum class Replay : std::uint8_t { kNone, kBest };

/// Replays the plans of a front that are not in `known`. Those that do not fit are removed from the
/// front and refused from then on. Returns whether there were any.
Result<bool> refuse_of(FrontAnswer& front, SearchState& state, std::set<std::uint64_t>& known) {
  const SearchQuestion& question = state.question;
  std::vector<RatedPlan>& plans = front.plans;
  std::vector<std::optional<Result<bool>>> fit(plans.size());
  in_parallel(plans.size(), question.threads, [&](std::size_t i) {
    if (known.contains(plans[i].number)) {
      fit[i] = true;
      return;
    }
    if (question.stop.asked()) {
      return;
    }
    const Result<cost::StepEstimate> replayed =
        judged_replay(question, plans[i].plan, question.budget);
    fit[i] =
        replayed ? Result<bool>(is_accepted(question, *replayed)) : Result<bool>(replayed.error());
  });
  std::vector<RatedPlan> kept;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (!fit[i]) {  // The search ended before its replay.
      front.whole = false;
      front.gap = std::numeric_limits<double>::infinity();
      continue;
    }
    if (!*fit[i]) {
      return fit[i]->error();
    }
    if (fit[i]->value()) {
      known.insert(plans[i].number);
      kept.push_back(std::move(plans[i]));
    } else {
      state.refused.insert(plans[i].number);
    }
  }
  const bool some = kept.size() < plans.size();
  plans = std::move(kept);
  return some;
}

/// The front of the plans that fit when replayed. If the replay refuses plans, the search runs
/// again without them, because other plans may replace them.
Result<FrontAnswer> replayed_front(SearchState& state, const std::vector<BoundedCell>& cells,
                                   Replay replay) {
  std::set<std::uint64_t> known;
  std::uint64_t evaluated = 0;
  while (true) {
    Result<FrontAnswer> found = search_front(state, cells);
    if (!found || replay == Replay::kNone) {
      return found;
    }
    FrontAnswer front = std::move(found).value();
    front.evaluated += evaluated;
    evaluated = front.evaluated;
    const Result<bool> refused = refuse_of(front, state, known);
    if (!refused) {
      return refused.error();
    }
    const bool stopped = state.question.stop.asked();
    if (!*refused || stopped) {
      front.whole = front.whole && !*refused;
      return front;
    }
  }
}

/// A plan that is the best so far.
struct Champion {
  RankedPlan ranked;
  Worth worth;         ///< By its replay, if there is one.
  double seconds = 0;  ///< Its step time, in the same way.
  std::optional<cost::StepEstimate> estimate;
};

/// One search for the best plan of a window.
///
/// Model:   plans come out of a `PlanStream` in the order of the least that their replays can give,
///          and are replayed until no other plan can be better than the best replay.
class BestSearch {
 public:
  /// Plans whose replay does not fit are added to `state.refused`. `known` is the best plan of
  /// other windows.
  BestSearch(SearchState& state, const CellWindow& window, Replay replay,
             std::optional<Champion> known)
      : state_(state),
        question_(state.question),
        window_(window),
        replay_(replay),
        stream_(state, window.cells,
                replay == Replay::kBest && state.question.proven ? PlanStream::Times::kLeast
                                                                 : PlanStream::Times::kEvaluated),
        best_(std::move(known)) {
    if (has_best()) {
      stream_.note_best(best_->worth, best_->seconds);
    }
  }

  Result<PlanResult> operator()() {
    if (Status status = find_best(); !status) {
      return std::move(status).error();
    }
    conclude();
    if (Status status = replay_others(); !status) {
      return std::move(status).error();
    }
    return std::move(result_);
  }

  /// Whether the search must run again, since plans that were left out may take the place of one
  /// that does not fit when replayed.
  [[nodiscard]] bool begins_anew() const { return anew_; }

  /// Whether cells that are in no window yet may have a better plan than the best.
  [[nodiscard]] bool needs_next_window() const {
    const bool enough = has_best() && question_.any;
    return window_.left && !enough && !is_interrupted() && !stream_.stopped() &&
           may_be_better(*window_.left);
  }

  /// The best plan so far, also if it is late.
  [[nodiscard]] const std::optional<Champion>& best() const { return best_; }

 private:
  [[nodiscard]] bool may_be_better(const Worth& worth) const {
    return !(question_.pruning.time_bound && best_ && worth > best_->worth);
  }

  /// Whether a plan is known that fits and is not late.
  [[nodiscard]] bool has_best() const { return best_ && !best_->worth.late; }

  /// Whether the first plan that comes out and fits is the answer.
  [[nodiscard]] bool takes_first() const { return replay_ == Replay::kNone || !question_.proven; }

  [[nodiscard]] bool is_interrupted() const { return question_.stop.asked(); }

  [[nodiscard]] Status find_best() {
    while (true) {
      Result<std::optional<RankedPlan>> next =
          stream_.next(best_ ? std::optional(best_->worth) : std::nullopt);
      if (!next) {
        return std::move(next).error();
      }
      if (!*next) {
        return ok();
      }
      if (Status status = consider(std::move(**next)); !status) {
        return status;
      }
      const bool one = takes_first() || question_.any || has_to_stop(state_);
      tried_late_ += has_to_stop(state_) ? 1 : 0;
      if (anew_ || (has_best() && one) || tried_late_ == kMostLate) {
        return ok();
      }
    }
  }

  /// Whether a plan's time alone may show that it is not the best, so that its memory need not be
  /// replayed.
  [[nodiscard]] bool may_be_slower() const {
    return replay_ == Replay::kBest && best_ && question_.replays == 1 &&
           stops_at_first(question_) && !best_->ranked.plan.plan.rank;
  }

  /// Replays `plan`, which becomes the best if it is better than the best so far.
  [[nodiscard]] Status consider(RankedPlan ranked) {
    const RatedPlan& plan = ranked.plan;
    Champion one{.ranked = ranked,
                 .worth = ranked.worth,
                 .seconds = plan.time.total().value(),
                 .estimate = std::nullopt};
    if (may_be_slower()) {
      const Result<cost::StepTime> time = cost::step_time(
          question_.space.model, plan.plan, question_.device, question_.budget, question_.machine);
      if (!time) {
        return time.error();
      }
      Worth worth = worth_of(question_, plan.plan, time->total.value(), plan.peak);
      worth.number = plan.number;
      if (worth > best_->worth) {
        stream_.note_replay(ranked, time->total.value());
        ++timed_;
        return ok();
      }
    }
    if (replay_ == Replay::kBest) {
      Result<cost::StepEstimate> replayed =
          judged_replay(question_, plan.plan, question_.budget, &question_.machine);
      if (!replayed) {
        return std::move(replayed).error();
      }
      if (!is_accepted(question_, *replayed)) {
        state_.refused.insert(plan.number);
        anew_ = !stops_at_first(question_);
        return ok();
      }
      const bool was_late = worth_of(question_, plan.plan, one.seconds, plan.peak).late;
      one.seconds = replayed->time ? replayed->time->total.value() : one.seconds;
      one.worth = worth_of(question_, plan.plan, one.seconds, plan.peak);
      one.worth.number = plan.number;
      if (one.worth.late && !was_late && !stops_at_first(question_)) {
        // Its cell has other plans that may be in time: this one was only the leanest.
        state_.refused.insert(plan.number);
        anew_ = true;
      }
      one.estimate = std::move(replayed).value();
      stream_.note_replay(ranked, one.seconds);
      replayed_.push_back(
          {.plan = {.plan = plan, .step = Seconds{one.seconds}}, .cell = ranked.cell});
    }
    if (!best_ || one.worth < best_->worth) {
      best_ = std::move(one);
      if (has_best()) {
        stream_.note_best(best_->worth, best_->seconds);
      }
      stream_.tell();
    }
    return ok();
  }

  /// A lower bound of the worth of plans that have not come out; none: there are no such plans.
  [[nodiscard]] std::optional<Worth> least_open() const {
    const std::optional<Worth> least = stream_.least();
    return least && window_.left ? std::min(least, window_.left) : (least ? least : window_.left);
  }

  /// Status, bound and gap: no plan that has not come out can be better than `least`.
  void conclude() {
    const std::optional<Worth> least = least_open();
    const bool open = least && may_be_better(*least);
    const bool others = window_.left && may_be_better(*window_.left);
    const bool first = best_ && takes_first() && !stream_.stopped() && !question_.any && !others;
    const bool whole = !window_.cut && (!open || first);
    PlanResult seen = stream_.seen();
    result_ = std::move(seen);
    result_.replays = replayed_.size() + timed_;
    if (!has_best()) {
      result_.late = best_.has_value();
      const double bound = whole || !least || window_.cut ? 0 : least->first;
      result_.status = whole ? PlanStatus::kInfeasible : PlanStatus::kUnknown;
      result_.bound = value_of(question_.objective, bound, question_.space.base.workload.sequence);
      result_.gap = whole ? 0 : 1;
      return;
    }
    result_.status = whole ? PlanStatus::kOptimal : PlanStatus::kFeasible;
    const double worth = best_->worth.first;
    const double bound = whole || !least ? worth : std::min(least->first, worth);
    // Dividing and multiplying a step time may change its last digit.
    const bool own = bound == worth && question_.objective == Objective::kThroughput;
    result_.bound =
        own ? best_->seconds
            : value_of(question_.objective, bound, best_->ranked.plan.plan.workload.sequence);
    result_.gap = worth != 0 ? (worth - bound) / std::abs(worth) : 0;
    if (window_.cut) {
      result_.bound = 0;
      result_.gap = 1;
    }
    result_.leanest.reset();
    result_.least_host.reset();
    result_.best = best_->ranked.plan;
    result_.estimate = best_->estimate;
  }

  /// `SearchQuestion::replays`: replays the first plan of further cells, and lists the best replay
  /// of each cell.
  [[nodiscard]] Status replay_others() {
    if (!has_best() || replay_ == Replay::kNone || question_.replays <= 1) {
      return ok();
    }
    std::set<std::size_t> replayed_cells;
    for (const Replayed& one : replayed_) {
      replayed_cells.insert(one.cell);
      stream_.leave_out(one.cell);
    }
    while (replayed_cells.size() < question_.replays && !is_interrupted()) {
      Result<std::optional<RankedPlan>> next = stream_.next(std::nullopt);
      if (!next) {
        return std::move(next).error();
      }
      if (!*next) {
        break;
      }
      const std::size_t cell = (*next)->cell;
      const std::size_t before = replayed_.size();
      if (Status status = consider(std::move(**next)); !status) {
        return status;
      }
      if (replayed_.size() > before) {
        replayed_cells.insert(cell);
        stream_.leave_out(cell);
      }
    }
    list_replayed();
    return ok();
  }

  void list_replayed() {
    std::ranges::stable_sort(replayed_, {}, [](const Replayed& one) { return one.plan.step; });
    std::set<std::size_t> listed;
    for (const Replayed& one : replayed_) {
      if (listed.size() < question_.replays && listed.insert(one.cell).second) {
        result_.replayed.push_back(one.plan);
      }
    }
  }

  /// A search that is to end still tries to replay a few plans if it has none.
  static constexpr int kMostLate = 3;

  struct Replayed {
    ReplayedPlan plan;
    std::size_t cell = 0;
  };

  SearchState& state_;
  const SearchQuestion& question_;
  const CellWindow& window_;
  Replay replay_;
  PlanStream stream_;
  std::optional<Champion> best_;
  std::vector<Replayed> replayed_;
  std::uint64_t timed_ = 0;  ///< Plans of which only the time was replayed.
  int tried_late_ = 0;       ///< Plans that were replayed when the search was to end.
  bool anew_ = false;
  PlanResult result_;
};

/// The question without the choice of what changes training, or needs a library, the launcher or
/// the host: each such axis has its usual value if all are allowed, or else the first allowed one.
/// None if that leaves nothing out.
std::optional<SearchQuestion> with_held_axes(const SearchQuestion& question) {
  SearchQuestion narrowed = question;
  bool fewer = false;
  for (const Axis axis : all_axes()) {
    AxisValues& values = narrowed.space.constraints.of(axis);
    if (is_held(axis) && values.size() > 1) {
      const Result<AxisValues> all = parse_axis(axis, "any");
      values = all && *all == values ? AxisValues() : AxisValues{values.front()};
      fewer = true;
    }
  }
  narrowed.front = false;
  narrowed.replays = 1;
  return fewer ? std::optional(std::move(narrowed)) : std::nullopt;
}

/// The best plan of a space as the first best of another one that contains it.
std::optional<Champion> champion_of(const SearchQuestion& question, PlanResult found) {
  if (!found.best || !found.estimate) {
    return std::nullopt;
  }
  const double seconds = found.step().value();
  Champion champion{.ranked = {.worth = {}, .plan = *std::move(found.best), .cell = 0},
                    .worth = {},
                    .seconds = seconds,
                    .estimate = std::move(found.estimate)};
  RatedPlan& plan = champion.ranked.plan;
  champion.worth = worth_of(question, plan.plan, seconds, plan.peak);
  champion.worth.number = UINT64_MAX;  // The same plan in the larger space takes its place.
  return champion;
}

/// Adds what an earlier window has seen: counts, refusals and the leanest plans.
void add_seen(PlanResult& result, PlanResult earlier) {
  result.evaluated += earlier.evaluated;
  result.replays += earlier.replays;
  for (Refused& one : earlier.refused) {
    const auto same = std::ranges::find_if(result.refused, [&](const Refused& other) {
      return other.framework == one.framework && other.error == one.error;
    });
    if (same != result.refused.end()) {
      same->plans += one.plans;
    } else {
      result.refused.push_back(std::move(one));
    }
  }
  if (result.best) {
    return;
  }
  if (earlier.leanest && (!result.leanest || earlier.leanest->peak < result.leanest->peak)) {
    result.leanest = std::move(earlier.leanest);
  }
  if (earlier.least_host &&
      (!result.least_host || earlier.least_host->host < result.least_host->host)) {
    result.least_host = std::move(earlier.least_host);
  }
}

/// One search of a space, window by window.
class SpaceSearch {
 public:
  SpaceSearch(const SearchQuestion& question, SearchRecords& records, Replay replay)
      : question_(question),
        records_(records),
        replay_(replay),
        device_(question.device),
        inputs_{.question = question, .device = device_, .records = records},
        state_{question, {}, {}, records.lowered, records.lowered.events()},
        most_(question.front || question.replays > 1 ? SIZE_MAX : room_for_cells(question.memory)) {
    device_.total = question.budget > Bytes{0} ? question.budget : question.device.total;
  }

  Result<PlanResult> operator()() {
    walk_first();
    if (window_.walked == 0 && !window_.cut) {
      return refusal_of(question_.space);
    }
    Result<PlanResult> found = search_windows();
    if (!found) {
      return found;
    }
    PlanResult result = std::move(found).value();
    std::vector<const FrameworkSearch*> frameworks;
    for (const auto& [framework, evaluator] : state_.evaluators) {
      frameworks.push_back(framework);
    }
    if (const std::optional<Error> error = refused_everywhere(result, frameworks)) {
      return *error;
    }
    if (result.leanest) {
      const FrameworkSearch& framework = search_of(result.leanest->plan);
      const Result<Bytes> peak = state_.evaluators.at(&framework)->peak(*result.leanest);
      result.leanest->peak = peak ? *peak : result.leanest->peak;
    }
    if (Status status = add_front(result); !status) {
      return std::move(status).error();
    }
    result.space = plans_;
    result.cut = window_.cut;
    result.frameworks = std::move(frameworks);
    result.left_out = std::move(left_out_);
    result.rejected = state_.refused.size();
    for (const auto& [framework, evaluator] : state_.evaluators) {
      evaluator->add_counts(result.memory);
    }
    return result;
  }

 private:
  /// The first window. Where the cells of the space take too much memory or time, the values that
  /// are usual are searched first: their best plan drops most other cells.
  void walk_first() {
    const StopSignal hurried = until_listed();
    walk({.most = most_, .ends_when_full = true, .stop = hurried});
    const std::optional<SearchQuestion> narrowed =
        window_.cut ? with_held_axes(question_) : std::nullopt;
    if (narrowed && replay_ == Replay::kBest) {
      Result<PlanResult> usual = SpaceSearch(*narrowed, records_, replay_)();
      if (usual) {
        seen_.evaluated = usual->evaluated;
        seen_.replays = usual->replays;
        champion_ = champion_of(question_, std::move(usual).value());
      }
    }
    if (window_.cut && !hurried.asked()) {
      walk({.cutoff = cutoff(), .most = most_, .stop = until_listed()});
    }
  }

  void walk(const WindowLimits& limits) {
    window_ = {};
    window_ = window_of(state_, inputs_, limits);
    plans_ = std::max(plans_, window_.plans);
    left_out_ = window_.left_out;
  }

  [[nodiscard]] std::optional<Worth> cutoff() const {
    return champion_ && !champion_->worth.late ? std::optional(champion_->worth) : std::nullopt;
  }

  /// Listing the space may take two thirds of the time that is left: without all cells, there is no
  /// bound.
  [[nodiscard]] StopSignal until_listed() const {
    StopSignal listed = question_.stop;
    if (listed.deadline) {
      const auto now = std::chrono::steady_clock::now();
      listed.deadline = now + (*listed.deadline - now) * 2 / 3;
    }
    return listed;
  }

  Result<PlanResult> search_windows() {
    while (true) {
      BestSearch pass(state_, window_, replay_, champion_);
      Result<PlanResult> found = pass();
      if (!found) {
        return found;
      }
      if (pass.begins_anew()) {
        seen_.evaluated += found->evaluated;
        champion_ = pass.best();
        continue;
      }
      add_seen(found.value(), std::move(seen_));
      if (!pass.needs_next_window()) {
        return found;
      }
      champion_ = pass.best();
      seen_ = std::move(found).value();
      const bool cut = window_.cut;
      const std::optional<Worth> left = window_.left;
      walk({.cutoff = cutoff(), .after = window_.last, .most = most_, .stop = question_.stop});
      // The space has been listed before, so that what this walk did not reach has that bound.
      window_.left = window_.cut ? left : window_.left;
      window_.cut = cut;
    }
  }

  [[nodiscard]] Status add_front(PlanResult& result) {
    result.front_whole = question_.front && result.status == PlanStatus::kInfeasible;
    if (!question_.front || !result.best) {
      return ok();
    }
    Result<FrontAnswer> front = replayed_front(state_, window_.cells, replay_);
    if (!front) {
      return std::move(front).error();
    }
    const bool all = !window_.cut && !window_.left;
    result.evaluated += front->evaluated;
    Front whole;
    whole.add({*result.best});  // Cells that are slower than it may not have been listed.
    whole.add(std::move(front->plans));
    result.front = whole.take();
    std::erase_if(result.front, [&](const RatedPlan& one) {
      return worth_of(question_, one.plan, one.time.total().value(), one.peak).late;
    });
    result.front_whole = front->whole && all;
    result.front_gap = all ? front->gap : std::numeric_limits<double>::infinity();
    return ok();
  }

  const SearchQuestion& question_;
  SearchRecords& records_;
  Replay replay_;
  cost::DeviceSpec device_;  ///< The device with the budget as its total.
  SearchInputs inputs_;
  SearchState state_;
  std::size_t most_;  ///< Cells of a window.
  CellWindow window_;
  std::optional<Champion> champion_;  ///< The best plan of what was searched before the window.
  PlanResult seen_;                   ///< The results of earlier windows.
  std::uint64_t plans_ = 0;           ///< The plans of all cells that were walked.
  std::vector<LeftOut> left_out_;
};

}  // namespace

Result<PlanResult> search(const SearchQuestion& question) {
  SearchRecords records;
  return search(question, records);
}

Result<PlanResult> search(const SearchQuestion& question, SearchRecords& records) {
  return SpaceSearch(question, records, Replay::kBest)();
}

Result<PlanResult> search_unreplayed(const SearchQuestion& question, SearchRecords& records) {
  return SpaceSearch(question, records, Replay::kNone)();
}

}  // namespace headroom::plan
