#include "planner/search/search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>
#include <queue>
#include <thread>
#include <tuple>
#include <utility>

#include "planner/search/evaluator.h"
#include "planner/search/front_search.h"
#include "planner/search/in_parallel.h"
#include "planner/space/refusal.h"

namespace headroom::plan {
namespace {

/// A visit of a cell continues to plans that are slower by this factor than the first open one.
constexpr double kStretch = 1.01;
/// Number of waves after which a search without a result looks for any plan that fits, so that it
/// has something to report if it is stopped.
constexpr std::size_t kWavesBeforeDive = 24;

std::vector<BoundedCell> bounded_cells(const SearchState& state, std::vector<Cell> cells) {
  std::vector<BoundedCell> bounded(cells.size());
  in_parallel(cells.size(), state.question.threads,
              [&](std::size_t i) { bounded[i] = bound_cell(state, std::move(cells[i])); });
  std::uint64_t number = 0;
  for (BoundedCell& cell : bounded) {
    cell.first_number = number;
    cell.bound.number = number;
    number += cell.cell.choices;
  }
  return bounded;
}

/// A cell, or the rest of a visited cell, that has not been searched yet.
struct Open {
  Worth bound;
  double seconds = 0;
  std::size_t cell = 0;
  std::optional<Timed> after;
  bool again = false;  ///< Whether it has been visited before.
  friend bool operator>(const Open& a, const Open& b) { return a.bound > b.bound; }
};

/// Converts a bound of worth to `PlanResult::bound`, for plans of `sequence` tokens.
double bound_of(Objective objective, double first, std::int64_t sequence) {
  switch (objective) {
    case Objective::kThroughput:
    case Objective::kCost:
      return first * static_cast<double>(sequence);
    case Objective::kGpus:
    case Objective::kMemory:
      return first;
    case Objective::kMicroBatch:
    case Objective::kSequence:
      return -first;
  }
  return first;
}

/// A plan that fits, and its worth.
struct Ranked {
  Worth worth;
  RatedPlan plan;
};

/// One best-first pass over all cells: it always continues with the lowest bound.
class CellPass {
 public:
  CellPass(const SearchState& state, const std::vector<BoundedCell>& cells)
      : state_(state), cells_(cells) {
    std::vector<Open> all(cells.size());
    for (std::size_t i = 0; i < cells.size(); ++i) {
      all[i] = {.bound = cells[i].bound, .seconds = cells[i].seconds, .cell = i, .after = {}};
    }
    open_ = Queue(std::greater<>(), std::move(all));
  }

  Result<PlanResult> operator()() {
    const SearchQuestion& question = state_.question;
    for (std::size_t waves = 0; !open_.empty() && !hopeless(open_.top().bound); ++waves) {
      const bool stopped = question.stop != nullptr && question.stop->load();
      if (stopped || is_enough() || (question.work_limit > 0 && visited_ >= question.work_limit)) {
        break;
      }
      const bool dives = waves == kWavesBeforeDive && !result_.best && question.replays == 1 &&
                         stops_at_first(question);
      if (Status status = dives ? dive() : wave(); !status) {
        return std::move(status).error();
      }
      tell();
    }
    finish();
    return std::move(result_);
  }

 private:
  /// Whether the bound proves that no plan is better than the known ones.
  [[nodiscard]] bool hopeless(const Worth& bound) const {
    return state_.question.pruning.time_bound && is_full() && bound > ranking_.back().worth;
  }

  /// Whether the question asks for any plan, and one is known.
  [[nodiscard]] bool is_enough() const {
    const SearchQuestion& question = state_.question;
    return question.any && has_best() &&
           (question.objective != Objective::kGpus || open_.top().bound.first >= worth_.first);
  }

  /// Whether a plan is known that fits and is not late.
  [[nodiscard]] bool has_best() const { return result_.best && !worth_.late; }

  /// Whether as many plans are known as are requested. Then only plans better than the last one
  /// matter.
  [[nodiscard]] bool is_full() const { return ranking_.size() >= state_.question.replays; }

  /// The limit of a visit of `open`: the bound of the next open cell after this wave, or a little
  /// above its own bound, so that a cell is not visited once for each of its plans.
  [[nodiscard]] std::optional<Worth> limit_of(const Open& open) const {
    const SearchQuestion& question = state_.question;
    if (!question.pruning.time_bound || question.work_limit > 0 || !stops_at_first(question)) {
      return std::nullopt;
    }
    Worth limit =
        worth_of(question, cells_[open.cell].cell.plan, kStretch * open.seconds, Bytes{0});
    limit.number = UINT64_MAX;
    return open_.empty() ? limit : std::max(limit, open_.top().bound);
  }

  Status wave() {
    const std::uint64_t limit = state_.question.work_limit;
    std::vector<Open> taken;
    std::size_t work = 0;
    while (work < kWave && !open_.empty() && !hopeless(open_.top().bound) &&
           (limit == 0 || visited_ < limit)) {
      taken.push_back(open_.top());
      work += state_.of(cells_[open_.top().cell].cell).work_of_cell();
      visited_ += open_.top().again ? 0U : 1U;
      open_.pop();
    }
    std::vector<Visit> visits;
    for (const Open& open : taken) {
      visits.push_back(
          {.incumbent = is_full() ? std::optional(ranking_.back().worth) : std::nullopt,
           .limit = limit_of(open),
           .after = open.after});
    }
    std::vector<std::optional<Result<CellAnswer>>> answers(taken.size());
    in_parallel(taken.size(), state_.question.threads, [&](std::size_t i) {
      const BoundedCell& cell = cells_[taken[i].cell];
      answers[i] = state_.of(cell.cell).search(state_, cell, visits[i]);
    });
    for (std::size_t i = 0; i < taken.size(); ++i) {
      if (!*answers[i]) {
        return answers[i]->error();
      }
      CellAnswer answer = std::move(*answers[i]).value();
      if (answer.next) {
        open_.push({.bound = answer.next->bound,
                    .seconds = answer.next->seconds,
                    .cell = taken[i].cell,
                    .after = answer.next->after,
                    .again = true});
      }
      settle(cells_[taken[i].cell], std::move(answer));
    }
    return ok();
  }

  /// Evaluates the leanest plans of cells, with growing steps in the order of their bounds.
  Status dive() {
    std::vector<std::size_t> order(cells_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [&](std::size_t i) { return cells_[i].bound; });
    std::vector<std::size_t> chosen;
    for (std::size_t at = 1; at < order.size(); at += at / 2 + 1) {
      chosen.push_back(order[at]);
    }
    std::vector<std::optional<Result<CellAnswer>>> answers(chosen.size());
    in_parallel(chosen.size(), state_.question.threads, [&](std::size_t i) {
      const BoundedCell& cell = cells_[chosen[i]];
      answers[i] = state_.of(cell.cell).leanest(state_, cell);
    });
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      if (!*answers[i]) {
        return answers[i]->error();
      }
      settle(cells_[chosen[i]], std::move(*answers[i]).value());
    }
    return ok();
  }

  void settle(const BoundedCell& cell, CellAnswer answer) {
    result_.evaluated += answer.evaluated;
    for (Error& error : answer.refusals) {
      const auto same = std::ranges::find_if(result_.refused, [&](const Refused& other) {
        return other.framework == cell.cell.framework && other.error == error;
      });
      if (same == result_.refused.end()) {
        result_.refused.push_back(
            {.framework = cell.cell.framework, .error = std::move(error), .plans = 1});
      } else {
        ++same->plans;
      }
    }
    if (answer.best) {
      rank({.worth = answer.worth, .plan = std::move(*answer.best)});
    }
    const auto& leanest = answer.leanest;
    if (leanest && (!result_.leanest || leanest->peak < result_.leanest->peak)) {
      result_.leanest = leanest;
    }
    const auto& least_host = answer.least_host;
    if (least_host && (!result_.least_host || least_host->host < result_.least_host->host)) {
      result_.least_host = least_host;
    }
  }

  void rank(Ranked one) {
    const auto same = [&](const Ranked& other) { return other.plan.number == one.plan.number; };
    if (std::ranges::any_of(ranking_, same)) {
      return;  // The leanest plan of a cell, found twice.
    }
    ranking_.insert(std::ranges::upper_bound(ranking_, one.worth, {}, &Ranked::worth),
                    std::move(one));
    if (ranking_.size() > state_.question.replays) {
      ranking_.pop_back();
    }
    result_.best = ranking_.front().plan;
    worth_ = ranking_.front().worth;
  }

  void tell() const {
    const SearchQuestion& question = state_.question;
    if (question.progress) {
      question.progress({.evaluated = result_.evaluated,
                         .cells = cells_.size(),
                         .cells_done = visited_,
                         .best_seconds = has_best() ? result_.best->time.total().value() : 0,
                         .bound = bound(),
                         .gap = gap()});
    }
  }

  void finish() {
    const bool whole = open_.empty() || hopeless(open_.top().bound);
    result_.bound = bound();
    if (result_.best && worth_.late) {
      result_.late = true;
      result_.best.reset();
      result_.bound = whole ? 0 : result_.bound;
    }
    if (result_.best) {
      result_.status = whole ? PlanStatus::kOptimal : PlanStatus::kFeasible;
      result_.gap = gap();
      result_.leanest.reset();
      result_.least_host.reset();
      for (std::size_t i = 1; i < ranking_.size(); ++i) {
        result_.next.push_back(ranking_[i].plan);
      }
    } else {
      result_.status = whole ? PlanStatus::kInfeasible : PlanStatus::kUnknown;
      result_.gap = whole ? 0 : 1;
    }
  }

  /// A lower bound of the worth of all plans.
  [[nodiscard]] double least_worth() const {
    if (open_.empty() || hopeless(open_.top().bound)) {
      return worth_.first;
    }
    const double next = open_.top().bound.first;
    return has_best() ? std::min(next, worth_.first) : next;
  }
  [[nodiscard]] double bound() const {
    const SearchQuestion& question = state_.question;
    const double least = least_worth();
    if (!has_best()) {
      return bound_of(question.objective, least, question.space.base.workload.sequence);
    }
    const RatedPlan& best = *result_.best;
    // Dividing and multiplying a step time may change its last digit.
    const bool own = least == worth_.first;
    if (own && question.objective == Objective::kThroughput) {
      return best.time.total().value();
    }
    return bound_of(question.objective, least, best.plan.workload.sequence);
  }
  [[nodiscard]] double gap() const {
    if (!has_best()) {
      return 1;
    }
    const double best = worth_.first;
    return best != 0 ? (best - least_worth()) / std::abs(best) : 0;
  }

  const SearchState& state_;
  const std::vector<BoundedCell>& cells_;
  using Queue = std::priority_queue<Open, std::vector<Open>, std::greater<>>;
  Queue open_;
  std::uint64_t visited_ = 0;  ///< Number of cells.
  PlanResult result_;
  Worth worth_;
  std::vector<Ranked> ranking_;  ///< By worth.
};

}  // namespace

namespace {

/// The reason why a search evaluated nothing, if all frameworks of the space refused what was asked
/// of them when it was lowered.
std::optional<Error> refused_everywhere(const PlanResult& result,
                                        const std::vector<BoundedCell>& cells) {
  const auto is_refused = [&](const BoundedCell& cell) {
    return std::ranges::find(result.refused, cell.cell.framework, &Refused::framework) !=
           result.refused.end();
  };
  const bool nothing = !result.best && !result.leanest && !result.least_host &&
                       result.evaluated == 0 && result.status == PlanStatus::kInfeasible;
  return nothing && !result.refused.empty() && std::ranges::all_of(cells, is_refused)
             ? std::optional(result.refused.front().error)
             : std::nullopt;
}

/// Whether `result.best` fits when it is replayed. Sets `result.estimate`.
Result<bool> replays(const SearchQuestion& question, PlanResult& result) {
  Result<cost::StepEstimate> replayed =
      judged_replay(question, result.best->plan, question.budget, &question.machine);
  if (!replayed) {
    return std::move(replayed).error();
  }
  if (!is_accepted(question, *replayed)) {
    return false;
  }
  result.estimate = std::move(replayed).value();
  return true;
}

/// Replays the plans after the best, too, and sorts all by their replayed times. Plans that do not
/// fit when replayed are left out.
Status replay_next(const SearchQuestion& question, PlanResult& result) {
  result.replayed.push_back({.plan = *result.best, .step = result.estimate->time->total});
  for (const RatedPlan& plan : result.next) {
    const Result<cost::StepEstimate> replayed =
        judged_replay(question, plan.plan, question.budget, &question.machine);
    if (!replayed) {
      return replayed.error();
    }
    if (is_accepted(question, *replayed) && replayed->time) {
      result.replayed.push_back({.plan = plan, .step = replayed->time->total});
    }
  }
  std::ranges::stable_sort(result.replayed, {}, &ReplayedPlan::step);
  return ok();
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
  std::uint64_t evaluated = 0;
  while (true) {
    Result<PlanResult> found = CellPass(state, bounded)();
    if (!found) {
      return found;
    }
    PlanResult result = std::move(found).value();
    if (const std::optional<Error> error = refused_everywhere(result, bounded)) {
      return *error;
    }
    evaluated += result.evaluated;
    if (result.best && replay == Replay::kBest) {
      const Result<bool> taken = replays(question, result);
      if (!taken) {
        return taken.error();
      }
      if (!*taken) {
        state.refused.insert(result.best->number);
        continue;
      }
      if (!result.next.empty() && result.estimate->time) {
        if (Status status = replay_next(question, result); !status) {
          return std::move(status).error();
        }
      }
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
