#include "planner/search/search.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "planner/search/evaluator.h"
#include "planner/search/front_search.h"
#include "planner/search/in_parallel.h"
#include "planner/search/plan_stream.h"
#include "planner/space/refusal.h"

namespace headroom::plan {
namespace {

/// The cells that may have a plan that fits, with their bounds. What the plans of a cell hold is
/// checked first, because bounds of times cost lowering short programs. A search of few cells keeps
/// all of them, so that its limit does not depend on the device.
std::vector<BoundedCell> bounded_cells(const SearchState& state, std::vector<Cell> cells) {
  const SearchQuestion& question = state.question;
  const bool drops = question.pruning.memory_floor && question.work_limit == 0;
  std::vector<std::optional<BoundedCell>> bounded(cells.size());
  std::vector<std::uint64_t> choices(cells.size());
  in_parallel(cells.size(), question.threads, [&](std::size_t i) {
    choices[i] = cells[i].choices;
    if (!drops || state.of(cells[i]).held_floor(cells[i]) <= capacity_of(question, cells[i].plan)) {
      bounded[i] = bound_cell(state, std::move(cells[i]));
    }
  });
  std::uint64_t number = 0;
  std::vector<BoundedCell> kept;
  for (std::size_t i = 0; i < bounded.size(); ++i) {
    if (bounded[i]) {
      bounded[i]->first_number = number;
      bounded[i]->bound.number = number;
      kept.push_back(*std::move(bounded[i]));
    }
    number += choices[i];
  }
  return kept;
}

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
    const Result<cost::StepEstimate> replayed =
        judged_replay(question, plans[i].plan, question.budget);
    fit[i] =
        replayed ? Result<bool>(is_accepted(question, *replayed)) : Result<bool>(replayed.error());
  });
  std::vector<RatedPlan> kept;
  for (std::size_t i = 0; i < plans.size(); ++i) {
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
    const bool stopped = state.question.stop != nullptr && state.question.stop->load();
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

/// One search for the best plan of all cells.
///
/// Model:   plans come out of a `PlanStream` in the order of the least that their replays can give,
///          and are replayed until no other plan can be better than the best replay.
class BestSearch {
 public:
  /// Plans whose replay does not fit are added to `state.refused`.
  BestSearch(SearchState& state, const std::vector<BoundedCell>& cells, Replay replay)
      : state_(state),
        question_(state.question),
        replay_(replay),
        stream_(state, cells,
                replay == Replay::kBest && state.question.proven ? PlanStream::Times::kLeast
                                                                 : PlanStream::Times::kEvaluated) {}

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

 private:
  /// Whether a plan is known that fits and is not late.
  [[nodiscard]] bool has_best() const { return best_ && !best_->worth.late; }

  /// Whether the first plan that comes out and fits is the answer.
  [[nodiscard]] bool takes_first() const { return replay_ == Replay::kNone || !question_.proven; }

  [[nodiscard]] bool is_interrupted() const {
    return question_.stop != nullptr && question_.stop->load();
  }

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
      const bool one = takes_first() || question_.any || is_interrupted();
      if (anew_ || (has_best() && one) || is_interrupted()) {
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
      one.seconds = replayed->time ? replayed->time->total.value() : one.seconds;
      one.worth = worth_of(question_, plan.plan, one.seconds, plan.peak);
      one.worth.number = plan.number;
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

  /// Status, bound and gap: no plan that has not come out can be better than `least`.
  void conclude() {
    const std::optional<Worth> least = stream_.least();
    const bool open = least && !(question_.pruning.time_bound && best_ && *least > best_->worth);
    const bool whole = !open || (best_ && takes_first() && !stream_.stopped() && !question_.any);
    PlanResult seen = stream_.seen();
    result_ = std::move(seen);
    result_.replays = replayed_.size() + timed_;
    if (!has_best()) {
      result_.late = best_.has_value();
      const double bound = whole || !least ? 0 : least->first;
      result_.status = whole ? PlanStatus::kInfeasible : PlanStatus::kUnknown;
      result_.bound = value_of(question_.objective, bound, question_.space.base.workload.sequence);
      result_.gap = whole ? 0 : 1;
      return;
    }
    result_.status = whole ? PlanStatus::kOptimal : PlanStatus::kFeasible;
    const double worth = best_->worth.first;
    const double bound = whole ? worth : std::min(least->first, worth);
    // Dividing and multiplying a step time may change its last digit.
    const bool own = bound == worth && question_.objective == Objective::kThroughput;
    result_.bound =
        own ? best_->seconds
            : value_of(question_.objective, bound, best_->ranked.plan.plan.workload.sequence);
    result_.gap = worth != 0 ? (worth - bound) / std::abs(worth) : 0;
    result_.leanest.reset();
    result_.least_host.reset();
    result_.best = best_->ranked.plan;
    result_.estimate = std::move(best_->estimate);
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

  struct Replayed {
    ReplayedPlan plan;
    std::size_t cell = 0;
  };

  SearchState& state_;
  const SearchQuestion& question_;
  Replay replay_;
  PlanStream stream_;
  std::optional<Champion> best_;
  std::vector<Replayed> replayed_;
  std::uint64_t timed_ = 0;  ///< Plans of which only the time was replayed.
  bool anew_ = false;
  PlanResult result_;
};

Result<PlanResult> search_space(const SearchQuestion& question, SearchRecords& records,
                                Replay replay) {
  Space asked = space_of(question.space);
  std::vector<Cell>& cells = asked.cells;
  const std::uint64_t space = count_plans(cells);
  if (cells.empty()) {
    return refusal_of(question.space);
  }
  cost::DeviceSpec device = question.device;
  device.total = question.budget > Bytes{0} ? question.budget : device.total;
  SearchState state =
      search_state({.question = question, .device = device, .records = records}, cells);
  std::vector<const FrameworkSearch*> frameworks;
  for (const auto& [framework, evaluator] : state.evaluators) {
    frameworks.push_back(framework);
  }
  const std::vector<BoundedCell> bounded = bounded_cells(state, std::move(cells));
  state.whole_cells = question.work_limit > 0 && question.work_limit <= bounded.size();
  std::uint64_t evaluated = 0;
  while (true) {
    BestSearch pass(state, bounded, replay);
    Result<PlanResult> found = pass();
    if (!found) {
      return found;
    }
    PlanResult result = std::move(found).value();
    if (const std::optional<Error> error = refused_everywhere(result, frameworks)) {
      return *error;
    }
    evaluated += result.evaluated;
    if (pass.begins_anew()) {
      continue;
    }
    if (result.leanest) {
      const FrameworkSearch& framework = search_of(result.leanest->plan);
      const Result<Bytes> peak = state.evaluators.at(&framework)->peak(*result.leanest);
      result.leanest->peak = peak ? *peak : result.leanest->peak;
    }
    result.front_whole = question.front && result.status == PlanStatus::kInfeasible;
    if (question.front && result.best) {
      Result<FrontAnswer> front = replayed_front(state, bounded, replay);
      if (!front) {
        return std::move(front).error();
      }
      evaluated += front->evaluated;
      result.front = std::move(front->plans);
      std::erase_if(result.front, [&](const RatedPlan& one) {
        return worth_of(question, one.plan, one.time.total().value(), one.peak).late;
      });
      result.front_whole = front->whole;
      result.front_gap = front->gap;
    }
    result.space = space;
    result.frameworks = std::move(frameworks);
    result.left_out = std::move(asked.left_out);
    result.evaluated = evaluated;
    result.rejected = state.refused.size();
    for (const auto& [framework, evaluator] : state.evaluators) {
      evaluator->add_counts(result.memory);
    }
    return result;
  }
}

}  // namespace

Result<PlanResult> search(const SearchQuestion& question) {
  SearchRecords records;
  return search(question, records);
}

Result<PlanResult> search(const SearchQuestion& question, SearchRecords& records) {
  return search_space(question, records, Replay::kBest);
}

Result<PlanResult> search_unreplayed(const SearchQuestion& question, SearchRecords& records) {
  return search_space(question, records, Replay::kNone);
}

}  // namespace headroom::plan
