#include "planner/search/plan_stream.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>

#include "planner/search/in_parallel.h"

namespace headroom::plan {
namespace {

/// A visit of a cell continues to plans that are slower by this factor than the first open one.
constexpr double kStretch = 1.01;
/// Number of waves after which a search without a result looks for any plan that fits, so that it
/// has something to report if it is stopped. With a time limit, also after a quarter of the time.
constexpr std::size_t kWavesBeforeDive = 24;
/// So many cells whose plans are all refused are the work of one whose plans are lowered.
constexpr std::uint64_t kRefusedCellsOfWork = 16;

}  // namespace

PlanStream::PlanStream(const SearchState& state, const std::vector<BoundedCell>& cells, Times times)
    : state_(state),
      cells_(cells),
      times_(times),
      ratios_(cells.size()),
      replayed_(cells.size()),
      uncertain_(cells.size()) {
  std::vector<Open> all(cells.size());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    all[i] = {.bound = scaled(cells[i].bound, factor_of(i)),
              .form = cells[i].bound,
              .seconds = cells[i].seconds,
              .cell = i,
              .after = {}};
  }
  open_ = decltype(open_)(std::greater<>(), std::move(all));
}

double PlanStream::factor_of(std::size_t cell) const {
  if (times_ == Times::kEvaluated) {
    return 1;
  }
  const TimeError error = state_.of(cells_[cell].cell).time_error();
  return std::max((1 - uncertain_[cell]) / (1 + error.of_space),
                  (1 - uncertain_[cell]) * ratios_[cell] / (1 + error.of_cell));
}

Worth PlanStream::scaled(const Worth& worth, double factor) const {
  return scaled_worth(state_.question, worth, factor);
}

void PlanStream::settle_first() {
  while (!open_.empty()) {
    const std::size_t cell = open_.top().cell;
    const Worth bound = scaled(open_.top().form, factor_of(cell));
    const bool gone = left_out_.contains(cell);
    if (!gone && bound <= open_.top().bound) {
      break;
    }
    Open moved = open_.top();
    open_.pop();
    if (!gone) {
      moved.bound = bound;
      open_.push(std::move(moved));
    }
  }
  while (!ready_.empty()) {
    const std::size_t cell = ready_.begin()->plan.cell;
    const Worth worth = scaled(ready_.begin()->form, factor_of(cell));
    const bool gone = left_out_.contains(cell);
    if (!gone && worth <= ready_.begin()->plan.worth) {
      break;
    }
    auto moved = ready_.extract(ready_.begin());
    if (!gone) {
      moved.value().plan.worth = worth;
      ready_.insert(std::move(moved));
    }
  }
}

bool PlanStream::is_hopeless(const Worth& bound, const std::optional<Worth>& cutoff) const {
  return state_.question.pruning.time_bound && cutoff && bound > *cutoff;
}

/// Whether no open cell can have a better plan than the first that is ready.
bool PlanStream::may_come_out() const {
  if (ready_.empty() || open_.empty()) {
    return !ready_.empty();
  }
  const SearchQuestion& question = state_.question;
  const Worth& first = ready_.begin()->plan.worth;
  if (question.any) {
    return question.objective != Objective::kGpus || open_.top().bound.first >= first.first;
  }
  return question.pruning.time_bound && open_.top().bound > first;
}

/// Whether the search has gone on for so long that it should look for any plan that fits.
bool PlanStream::is_long() const {
  const auto& deadline = state_.question.stop.deadline;
  const auto now = std::chrono::steady_clock::now();
  return waves_ >= kWavesBeforeDive || (deadline && now - begin_ > (*deadline - begin_) / 4);
}

bool PlanStream::is_stopped() {
  stopped_ = stopped_ || is_worked_off() || state_.question.stop.asked();
  return stopped_;
}

bool PlanStream::is_worked_off() const {
  const std::uint64_t limit = state_.question.work_limit;
  const std::uint64_t refused = refused_.size();
  if (state_.effort_left(evaluated_events_) == 0) {
    return true;
  }
  return limit > 0 && visited_ - refused + refused / kRefusedCellsOfWork >= limit;
}

Result<std::optional<RankedPlan>> PlanStream::next(const std::optional<Worth>& cutoff) {
  const SearchQuestion& question = state_.question;
  while (true) {
    settle_first();
    const bool pruned = open_.empty() || is_hopeless(open_.top().bound, cutoff);
    if (may_come_out() || (!ready_.empty() && (pruned || is_stopped()))) {
      if (is_hopeless(ready_.begin()->plan.worth, cutoff)) {
        return std::optional<RankedPlan>();
      }
      return std::optional(std::move(ready_.extract(ready_.begin()).value().plan));
    }
    if (pruned || is_stopped()) {
      return std::optional<RankedPlan>();
    }
    const bool dives = is_long() && !dived_ && !best_ && known_.empty() && question.replays == 1 &&
                       stops_at_first(question);
    ++waves_;
    dived_ = dived_ || dives;
    if (Status status = dives ? dive() : wave(cutoff); !status) {
      return std::move(status).error();
    }
    tell();
  }
}

std::optional<Worth> PlanStream::least() const {
  std::optional<Worth> least;
  if (!open_.empty()) {
    least = open_.top().bound;
  }
  if (!ready_.empty()) {
    const Worth& ready = ready_.begin()->plan.worth;
    least = least ? std::min(*least, ready) : ready;
  }
  return least;
}

void PlanStream::note_replay(const RankedPlan& plan, double seconds) {
  const double form = plan.plan.time.total().value();
  if (form > 0) {
    // The first plan of a cell stands for the others.
    ratios_[plan.cell] = ratios_[plan.cell] > 0 ? ratios_[plan.cell] : seconds / form;
  }
  replayed_[plan.cell].push_back(
      {.seconds = seconds, .index = plan.plan.number - cells_[plan.cell].first_number});
}

void PlanStream::note_best(const Worth& worth, double seconds) {
  best_ = worth;
  best_seconds_ = seconds;
}

/// The range of plans of a cell to look at now: up to the bound of the next open cell after this
/// wave, or to a little above its own bound, so that a cell is not visited once for each of its
/// plans; but not beyond what is known to be the best.
Visit PlanStream::visit_of(const Open& open, const std::optional<Worth>& cutoff) const {
  const SearchQuestion& question = state_.question;
  Visit visit{.incumbent = std::nullopt, .limit = std::nullopt, .after = open.after};
  if (times_ == Times::kLeast && question.replays == 1) {
    visit.best_replay = cutoff;
    visit.replayed = replayed_[open.cell];
  }
  if (!question.pruning.time_bound) {
    return visit;
  }
  std::optional<Worth> known = cutoff;
  if (!ready_.empty()) {
    const Worth& ready = ready_.begin()->plan.worth;
    known = known ? std::min(*known, ready) : ready;
  }
  if (!stops_at_first(question)) {
    visit.incumbent = known;
    return visit;
  }
  const double back = 1 / factor_of(open.cell);
  // With a limit of time, a plan that is late by its form may be in time when it is replayed.
  if (cutoff && question.replays == 1 && question.longest.value() <= 0) {
    visit.incumbent = scaled(*cutoff, back);
  }
  if (known) {
    known = scaled(*known, back);
  }
  if (question.work_limit > 0) {
    visit.limit = known ? std::optional(std::max(*known, open.form)) : std::nullopt;
    return visit;
  }
  Worth limit = worth_of(question, cells_[open.cell].cell.plan, kStretch * open.seconds, Bytes{0});
  limit.number = UINT64_MAX;
  limit = open_.empty() ? limit : std::max(limit, scaled(open_.top().bound, back));
  visit.limit = known ? std::min(limit, std::max(*known, open.form)) : limit;
  return visit;
}

/// The answer of a cell that is left as it was, because the search ends.
CellAnswer PlanStream::unvisited(const Open& open) const {
  CellAnswer answer;
  answer.uncertain = uncertain_[open.cell];
  answer.next = Next{.seconds = open.seconds, .bound = open.form, .after = open.after};
  return answer;
}

/// What is left, in equal parts; but not so little that cells are visited again for each plan.
std::uint64_t PlanStream::effort_of_visit(std::size_t visits) const {
  constexpr std::uint64_t kMostParts = 16;
  const std::uint64_t part =
      state_.effort_left(evaluated_events_) / std::max<std::size_t>(visits, 1);
  return std::max<std::uint64_t>({part, state_.question.effort / kMostParts, 1});
}

Status PlanStream::wave(const std::optional<Worth>& cutoff) {
  std::vector<Open> taken;
  std::size_t work = 0;
  while (work < kWave && !open_.empty() && !is_hopeless(open_.top().bound, cutoff) &&
         (taken.empty() || !may_come_out()) && !is_worked_off()) {
    taken.push_back(open_.top());
    work += state_.of(cells_[open_.top().cell].cell).work_of_cell();
    visited_ += open_.top().again ? 0U : 1U;
    open_.pop();
  }
  std::vector<Visit> visits;
  for (const Open& open : taken) {
    visits.push_back(visit_of(open, cutoff));
    visits.back().effort = effort_of_visit(taken.size());
  }
  std::vector<std::optional<Result<CellAnswer>>> answers(taken.size());
  in_parallel(taken.size(), state_.question.threads, [&](std::size_t i) {
    const BoundedCell& cell = cells_[taken[i].cell];
    answers[i] = state_.question.stop.asked()
                     ? Result<CellAnswer>(unvisited(taken[i]))
                     : state_.of(cell.cell).search(state_, cell, visits[i]);
  });
  for (std::size_t i = 0; i < taken.size(); ++i) {
    if (!*answers[i]) {
      return answers[i]->error();
    }
    CellAnswer answer = std::move(*answers[i]).value();
    if (answer.evaluated > 0) {
      refused_.erase(taken[i].cell);
    } else if (!taken[i].again && !answer.refusals.empty()) {
      refused_.insert(taken[i].cell);
    }
    // The bound of a cell that is not open yet holds for work of the device alone.
    uncertain_[taken[i].cell] = answer.uncertain;
    if (answer.next) {
      open_.push({.bound = scaled(answer.next->bound, factor_of(taken[i].cell)),
                  .form = answer.next->bound,
                  .seconds = answer.next->seconds,
                  .cell = taken[i].cell,
                  .after = answer.next->after,
                  .again = true});
    }
    settle(taken[i].cell, std::move(answer));
  }
  return ok();
}

void PlanStream::tell() const {
  const SearchQuestion& question = state_.question;
  if (!question.progress) {
    return;
  }
  const Worth* const best = best_ ? &*best_ : nullptr;
  const std::optional<Worth> open = least();
  double bound = best != nullptr ? best->first : 0;
  if (open) {
    bound = best != nullptr ? std::min(bound, open->first) : open->first;
  }
  const bool gap = best != nullptr && best->first != 0;
  question.progress(
      {.evaluated = seen_.evaluated,
       .cells = cells_.size(),
       .cells_done = visited_,
       .best_seconds = best_seconds_,
       .bound = value_of(question.objective, bound, question.space.base.workload.sequence),
       .gap = gap ? (best->first - bound) / std::abs(best->first) : (best == nullptr ? 1.0 : 0.0)});
}

/// Evaluates the leanest plans of cells, with growing steps in the order of their bounds.
Status PlanStream::dive() {
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
    answers[i] = state_.question.stop.asked() ? Result<CellAnswer>(CellAnswer{})
                                              : state_.of(cell.cell).leanest(state_, cell);
  });
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (!*answers[i]) {
      return answers[i]->error();
    }
    settle(chosen[i], std::move(*answers[i]).value());
  }
  return ok();
}

void PlanStream::settle(std::size_t cell, CellAnswer answer) {
  const FrameworkSearch* const framework = cells_[cell].cell.framework;
  seen_.evaluated += answer.evaluated;
  evaluated_events_ += answer.events;
  for (Error& error : answer.refusals) {
    const auto same = std::ranges::find_if(seen_.refused, [&](const Refused& other) {
      return other.framework == framework && other.error == error;
    });
    if (same == seen_.refused.end()) {
      seen_.refused.push_back({.framework = framework, .error = std::move(error), .plans = 1});
    } else {
      ++same->plans;
    }
  }
  if (answer.best) {
    add(cell, answer.worth, std::move(*answer.best));
  }
  for (WorthyPlan& one : answer.others) {
    add(cell, one.worth, std::move(one.plan));
  }
  const auto& leanest = answer.leanest;
  if (leanest && (!seen_.leanest || leanest->peak < seen_.leanest->peak)) {
    seen_.leanest = leanest;
  }
  const auto& least_host = answer.least_host;
  if (least_host && (!seen_.least_host || least_host->host < seen_.least_host->host)) {
    seen_.least_host = least_host;
  }
}

void PlanStream::add(std::size_t cell, const Worth& form, RatedPlan plan) {
  if (!known_.insert(plan.number).second) {
    return;  // The leanest plan of a cell, found twice.
  }
  ready_.insert(
      {.plan = {.worth = scaled(form, factor_of(cell)), .plan = std::move(plan), .cell = cell},
       .form = form});
}

}  // namespace headroom::plan
