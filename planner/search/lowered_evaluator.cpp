#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "costmodel/host_memory.h"
#include "costmodel/memory_floor.h"
#include "planner/evaluate/plan_bounds.h"
#include "planner/search/evaluator.h"
#include "runtimes/registry.h"

namespace headroom::plan {
namespace {

/// The state of the evaluator for one search.
struct LoweredSearch {
  LoweredPlans plans;
  std::unique_ptr<PlanBounds> bounds;
};

/// The least that `plan` takes of the host; nothing is asked of a plan that keeps nothing there.
cost::HostMemory host_floor_of(const SearchQuestion& question, const ir::ParallelPlan& plan) {
  const ir::ModelSpec& model = question.space.model;
  const bool held = ir::runtime_of(plan).held_on_host(model, plan) > Bytes{0};
  return question.device.host && held ? cost::host_floor(model, plan, question.device.host)
                                      : cost::HostMemory{};
}

std::vector<ir::ParallelPlan> plans_of(const SearchState& state, const Cell& cell) {
  const std::unique_ptr<const Choices> choices = choices_of(state.question.space, cell);
  std::vector<ir::ParallelPlan> plans;
  for (std::uint64_t index = 0; index < choices->size(); ++index) {
    plans.push_back(choices->plan_at(index));
  }
  return plans;
}

/// The figures of a plan that bounds prove.
struct Ruled {
  bool too_large = false;
  bool too_slow = false;
  double seconds = 0;  ///< The least that it takes.
};

/// Bounds of the plans of a cell before they are lowered.
///
/// Model:   `PlanBounds`. In addition, a plan is no faster than those plans of its cell whose
///          programs have the same work or less (`PlanBounds::lighter`).
class CellBounds {
 public:
  /// Keeps references to all arguments.
  CellBounds(const SearchState& state, LoweredSearch& lowered, const BoundedCell& cell,
             const std::vector<ir::ParallelPlan>& plans)
      : lowered_(lowered), cell_(cell), plans_(plans) {
    if (state.question.pruning.dominance) {
      lighter_ = lowered.bounds->lighter(state.question.space, cell.cell);
    }
  }

  /// Lower bound of the step time of plan number `index`, before any plan is lowered.
  [[nodiscard]] double seconds(std::uint64_t index) const {
    return lowered_.bounds->least_step(plans_[index]).value();
  }

  /// The same, raised by the times of other plans of the cell that have been lowered.
  [[nodiscard]] double seconds_now(std::uint64_t index) const {
    double least = seconds(index);
    if (!lighter_.empty()) {
      for (const std::uint64_t other : lighter_[index]) {
        if (const auto known = lowered_.plans.known(cell_.first_number + other)) {
          least = std::max(least, known->time.total().value());
        }
      }
    }
    return least;
  }

  /// Whether times of other plans of the cell can raise bounds.
  [[nodiscard]] bool learns() const { return !lighter_.empty(); }

  /// Whether bounds prove that the peak of plan number `index` is above `ceiling`, or that it takes
  /// longer than `limit` seconds.
  ///
  /// Errors:  those of the lowering.
  [[nodiscard]] Result<Ruled> rule_out(std::uint64_t index, Bytes ceiling, double limit) const {
    constexpr double kRounding = 1 + 1e-9;  // A limit that is this bound must not rule it out.
    const ir::ParallelPlan& plan = plans_[index];
    if (lowered_.bounds->floor(plan) > ceiling) {
      return Ruled{.too_large = true, .too_slow = false, .seconds = 0};
    }
    if (lowered_.plans.known(cell_.first_number + index)) {
      return Ruled{};
    }
    if (least_peak(index) > ceiling) {
      return Ruled{.too_large = true, .too_slow = false, .seconds = 0};
    }
    const Result<std::optional<SampledBound>> sampled =
        lowered_.bounds->sampled(plan, lowered_.plans);
    if (!sampled) {
      return sampled.error();
    }
    if (!*sampled) {
      return Ruled{};
    }
    return Ruled{.too_large = (*sampled)->peak > ceiling,
                 .too_slow = (*sampled)->step.value() > kRounding * limit,
                 .seconds = (*sampled)->step.value()};
  }

 private:
  /// What the peaks of other plans of the cell say about that of plan number `index`.
  [[nodiscard]] Bytes least_peak(std::uint64_t index) const {
    Bytes least;
    for (std::size_t i = 0; !lighter_.empty() && i < lighter_[index].size(); ++i) {
      const std::uint64_t other = lighter_[index][i];
      if (const auto known = lowered_.plans.known(cell_.first_number + other)) {
        least = std::max(least, lowered_.bounds->least_peak(plans_[index], plans_[other], *known));
      }
    }
    return least;
  }

  LoweredSearch& lowered_;
  const BoundedCell& cell_;
  const std::vector<ir::ParallelPlan>& plans_;
  std::vector<std::vector<std::uint64_t>> lighter_;
};

/// One visit of a cell whose plans are lowered whole. They are visited in the order of their
/// bounds; their actual times are known only when they have been lowered.
class LoweredVisit {
 public:
  LoweredVisit(const SearchState& state, LoweredSearch& lowered, const BoundedCell& cell,
               const Visit& visit)
      : state_(state),
        lowered_(lowered),
        question_(state.question),
        cell_(cell),
        visit_(visit),
        capacity_(capacity_of(question_, cell.cell.plan)),
        plans_(plans_of(state, cell.cell)),
        bounds_(state, lowered, cell, plans_) {}

  Result<CellAnswer> operator()() {
    if (question_.pruning.memory_floor &&
        cost::memory_floor(question_.space.model, cell_.cell.plan) > ceiling()) {
      return std::move(answer_);
    }
    if (question_.objective == Objective::kMemory && question_.pruning.memory_floor) {
      return lowest_floor();
    }
    std::optional<Timed> last = visit_.after;
    for (const Timed& bound : plans_by_bound()) {
      const Worth least = worth_of_bound(bound);
      const bool found =
          has_best() && (question_.any || (question_.pruning.time_bound &&
                                           stops_at_first(question_) && least > answer_.worth));
      if (found || (visit_.limit && least > *visit_.limit) || is_over()) {
        leave_for_later({.seconds = bound.seconds, .bound = least, .after = last});
        break;
      }
      if (is_slower(bound.index) || lacks_host(bound.index)) {
        last = bound;
        continue;
      }
      if (const std::optional<Next> later = beyond_limit(bound.index, last)) {
        leave_for_later(*later);
        last = bound;
        continue;
      }
      if (question_.pruning.memory_floor) {
        const Result<Ruled> ruled =
            bounds_.rule_out(bound.index, ceiling(), longest_of_visit(bound.index));
        if (!ruled && !leave_out(ruled.error())) {
          return ruled.error();
        }
        if (ruled && !ruled->too_large && ruled->too_slow) {
          const Timed timed{.seconds = ruled->seconds, .index = bound.index};
          leave_for_later(
              {.seconds = ruled->seconds, .bound = worth_of_bound(timed), .after = last});
        }
        if (!ruled || ruled->too_large || ruled->too_slow) {
          last = bound;
          continue;
        }
      }
      last = bound;
      if (Status status = evaluate(bound.index); !status) {
        return std::move(status).error();
      }
    }
    return std::move(answer_);
  }

  /// Evaluates only the last plan of those that recompute most layers.
  Result<CellAnswer> leanest() {
    std::uint64_t index = 0;
    for (std::uint64_t i = 0; i < plans_.size(); ++i) {
      const bool more = plans_[index].recompute == ir::Recompute::kNone ||
                        plans_[i].recompute_every <= plans_[index].recompute_every;
      index = plans_[i].recompute != ir::Recompute::kNone && more ? i : index;
    }
    if (state_.refused.contains(cell_.first_number + index) || lacks_host(index) ||
        cost::memory_floor(question_.space.model, cell_.cell.plan) > ceiling() ||
        lowered_.bounds->floor(plans_[index]) > ceiling()) {
      return std::move(answer_);
    }
    const Status status = evaluate(index);
    return status ? Result<CellAnswer>(std::move(answer_)) : Result<CellAnswer>(status.error());
  }

 private:
  /// Whether the visit is to end.
  [[nodiscard]] bool is_over() const {
    return question_.stop.asked() || answer_.events >= visit_.effort;
  }

  /// Whether a plan is known that fits and is not late.
  [[nodiscard]] bool has_best() const { return answer_.best && !answer_.worth.late; }

  /// Evaluates only the plan with the lowest floor, because its peak may exclude the others, and
  /// those of other cells; or, where any plan suffices, those up to the first that fits.
  /// `Timed::seconds` of positions in the cell are floors here.
  [[nodiscard]] Result<CellAnswer> lowest_floor() {
    std::optional<Timed> last = visit_.after;
    for (const Timed& place : places_by_floor()) {
      if ((question_.any ? has_best() : answer_.evaluated > 0) || is_over()) {
        answer_.next = Next{
            .seconds = bounds_.seconds(place.index), .bound = worth_of_floor(place), .after = last};
        break;
      }
      last = place;
      if (lacks_host(place.index)) {
        continue;
      }
      constexpr double kNoLimit = std::numeric_limits<double>::infinity();
      const Result<Ruled> ruled = bounds_.rule_out(place.index, ceiling(), kNoLimit);
      if (!ruled && !leave_out(ruled.error())) {
        return ruled.error();
      }
      if (!ruled || ruled->too_large) {
        continue;
      }
      if (Status status = evaluate(place.index); !status) {
        return std::move(status).error();
      }
    }
    return std::move(answer_);
  }

  [[nodiscard]] Worth worth_of_floor(const Timed& place) const {
    const Bytes held = cost::memory_floor(question_.space.model, cell_.cell.plan);
    const Bytes floor{static_cast<std::int64_t>(place.seconds)};
    Worth worth =
        worth_of(question_, cell_.cell.plan, bounds_.seconds(place.index), std::max(held, floor));
    worth.number = cell_.first_number + place.index;
    return worth;
  }

  /// Plans that may have the lowest peak, from the first that has not been looked at.
  [[nodiscard]] std::vector<Timed> places_by_floor() const {
    std::vector<Timed> order;
    for (std::uint64_t index = 0; index < plans_.size(); ++index) {
      const Bytes floor = lowered_.bounds->floor(plans_[index]);
      const Timed place{.seconds = static_cast<double>(floor.value()), .index = index};
      const bool hopeless = visit_.incumbent && question_.pruning.time_bound &&
                            worth_of_floor(place) > *visit_.incumbent;
      if (!hopeless && (!visit_.after || *visit_.after < place) &&
          !state_.refused.contains(cell_.first_number + index)) {
        order.push_back(place);
      }
    }
    std::ranges::sort(order);
    return order;
  }

  /// Whether the least that the plan holds on the host is too much. Before it is lowered.
  [[nodiscard]] bool lacks_host(std::uint64_t index) {
    const cost::HostMemory host = host_floor_of(question_, plans_[index]);
    if (host.fits()) {
      return false;
    }
    if (!answer_.least_host || host.bytes < answer_.least_host->host) {
      answer_.least_host = RatedPlan{.plan = plans_[index],
                                     .time = {},
                                     .peak = {},
                                     .capacity = capacity_,
                                     .number = cell_.first_number + index,
                                     .host = host.bytes,
                                     .host_capacity = host.capacity.value_or(Bytes{0}),
                                     .host_fits = false};
    }
    return true;
  }

  [[nodiscard]] Worth worth_of_bound(const Timed& bound) const {
    Worth worth = worth_of(question_, cell_.cell.plan, bound.seconds, Bytes{0});
    worth.number = cell_.first_number + bound.index;
    return worth;
  }

  /// Plans that may be the best, from the first that has not been looked at.
  [[nodiscard]] std::vector<Timed> plans_by_bound() const {
    std::vector<Timed> order;
    for (std::uint64_t index = 0; index < cell_.cell.choices; ++index) {
      const Timed bound{.seconds = bounds_.seconds(index), .index = index};
      const bool hopeless = visit_.incumbent && question_.pruning.time_bound &&
                            worth_of_bound(bound) > *visit_.incumbent;
      if (!hopeless && (!visit_.after || *visit_.after < bound) &&
          !state_.refused.contains(cell_.first_number + index)) {
        order.push_back(bound);
      }
    }
    std::ranges::sort(order);
    return order;
  }

  /// Whether times of other plans prove that the plan cannot be the best.
  [[nodiscard]] bool is_slower(std::uint64_t index) const {
    if (!question_.pruning.time_bound || !bounds_.learns()) {
      return false;
    }
    const Worth least = worth_of_bound({.seconds = bounds_.seconds_now(index), .index = index});
    return (visit_.incumbent && least > *visit_.incumbent) ||
           (answer_.best && least > answer_.worth);
  }

  /// The place to continue after `last` if times of other plans prove that the plan is beyond the
  /// limit of this visit.
  [[nodiscard]] std::optional<Next> beyond_limit(std::uint64_t index,
                                                 const std::optional<Timed>& last) const {
    if (!visit_.limit || !bounds_.learns()) {
      return std::nullopt;
    }
    const double seconds = bounds_.seconds_now(index);
    const Worth least = worth_of_bound({.seconds = seconds, .index = index});
    return least > *visit_.limit
               ? std::optional(Next{.seconds = seconds, .bound = least, .after = last})
               : std::nullopt;
  }

  /// The longest step of the plan with which it is looked at in this visit; there is no limit
  /// unless objective and time order plans in the same way.
  [[nodiscard]] double longest_of_visit(std::uint64_t index) const {
    constexpr double kNoLimit = std::numeric_limits<double>::infinity();
    if (!visit_.limit || question_.any) {
      return kNoLimit;
    }
    const Worth one = worth_of_bound({.seconds = 1, .index = index});
    switch (question_.objective) {
      case Objective::kThroughput:
      case Objective::kCost:
        return visit_.limit->first / one.first;
      case Objective::kGpus:
      case Objective::kMicroBatch:
      case Objective::kSequence:
        return visit_.limit->first > one.first ? kNoLimit : visit_.limit->second;
      case Objective::kMemory:
        return kNoLimit;
    }
    return kNoLimit;
  }

  /// The next visit continues at the first plan that is left, with the lowest bound of all.
  void leave_for_later(const Next& next) {
    if (!answer_.next) {
      answer_.next = next;
    } else if (next.bound < answer_.next->bound) {
      answer_.next->bound = next.bound;
      answer_.next->seconds = next.seconds;
    }
  }

  /// The peak above which a plan cannot be the best.
  [[nodiscard]] Bytes ceiling() const {
    Bytes most = capacity_;
    if (question_.objective == Objective::kMemory && visit_.incumbent && !visit_.incumbent->late) {
      most = std::min(most, Bytes{static_cast<std::int64_t>(visit_.incumbent->first)});
    }
    if (question_.objective == Objective::kMemory && has_best()) {
      most = std::min(most, answer_.best->peak);
    }
    return most;
  }

  /// Notes that a plan is refused. Returns false if the error is none of the plan's.
  [[nodiscard]] bool leave_out(const Error& error) {
    if (is_refusal(error)) {
      answer_.refusals.push_back(error);
    }
    return is_refusal(error);
  }

  [[nodiscard]] Status evaluate(std::uint64_t index) {
    const std::uint64_t number = cell_.first_number + index;
    const ir::ParallelPlan& plan = plans_[index];
    const bool is_new = !lowered_.plans.known(number);
    const Result<LoweredPlan> lowered = lowered_.plans.of(plan, number);
    if (!lowered) {
      return leave_out(lowered.error()) ? ok() : Status(lowered.error());
    }
    ++answer_.evaluated;
    answer_.events += is_new ? lowered->events : 0;
    const RatedPlan rated{.plan = plan,
                          .time = lowered->time,
                          .peak = lowered->peak,
                          .capacity = capacity_,
                          .number = number,
                          .host = lowered->host,
                          .host_capacity = lowered->host_capacity,
                          .host_fits = lowered->host_fits};
    if (keep_too_large(rated, answer_)) {
      return ok();
    }
    Worth worth = worth_of(question_, plan, rated.time.total().value(), rated.peak);
    worth.number = number;
    if (answer_.best && worth > answer_.worth) {
      answer_.others.push_back({.worth = worth, .plan = rated});
      return ok();
    }
    if (answer_.best) {
      answer_.others.push_back({.worth = answer_.worth, .plan = std::move(*answer_.best)});
    }
    answer_.best = rated;
    answer_.worth = worth;
    return ok();
  }

  const SearchState& state_;
  LoweredSearch& lowered_;
  const SearchQuestion& question_;
  const BoundedCell& cell_;
  const Visit& visit_;
  Bytes capacity_;
  std::vector<ir::ParallelPlan> plans_;
  CellBounds bounds_;
  CellAnswer answer_;
};

/// Evaluates plans by lowering them whole.
class LoweredEvaluator final : public Evaluator {
 public:
  LoweredEvaluator(const SearchInputs& inputs, std::unique_ptr<PlanBounds> bounds)
      : question_(inputs.question),
        lowered_{{inputs.question.space.model, inputs.device, inputs.question.machine,
                  inputs.records.lowered},
                 std::move(bounds)} {}

  [[nodiscard]] std::size_t work_of_cell() const override { return 4; }
  [[nodiscard]] Seconds least_of_cell(const Cell& cell) override {
    return lowered_.bounds->least_of_cell(cell.plan);
  }

  [[nodiscard]] Bytes held_floor(const Cell& cell) const override {
    return cost::memory_floor(question_.space.model, cell.plan);
  }

  [[nodiscard]] Bytes cell_floor(const Cell& cell, Bytes enough) override {
    const Bytes held = held_floor(cell);
    if (held > enough) {
      return held;
    }
    Bytes least = kMostBytes;
    const std::unique_ptr<const Choices> choices = choices_of(question_.space, cell);
    for (std::uint64_t index = 0; index < choices->size(); ++index) {
      least = std::min(least, lowered_.bounds->floor(choices->plan_at(index)));
    }
    return std::max(held, least);
  }

  [[nodiscard]] Result<CellAnswer> search(const SearchState& state, const BoundedCell& cell,
                                          const Visit& visit) override {
    return LoweredVisit(state, lowered_, cell, visit)();
  }

  [[nodiscard]] Result<CellAnswer> leanest(const SearchState& state,
                                           const BoundedCell& cell) override {
    const Visit visit;
    return LoweredVisit(state, lowered_, cell, visit).leanest();
  }

  /// The time of a plan is known only when it has been lowered.
  [[nodiscard]] Result<CellFront> front(const SearchState& state, const BoundedCell& cell,
                                        Bytes /*floor*/, const Front& front) override {
    const Pruning& pruning = question_.pruning;
    const std::vector<ir::ParallelPlan> plans = plans_of(state, cell.cell);
    const Bytes capacity = capacity_of(question_, cell.cell.plan);
    const CellBounds bounds(state, lowered_, cell, plans);
    CellFront answer;
    for (std::uint64_t index = 0; index < plans.size(); ++index) {
      if (question_.stop.asked()) {
        answer.whole = false;
        break;
      }
      const ir::ParallelPlan& plan = plans[index];
      const std::uint64_t number = cell.first_number + index;
      Bytes ceiling = capacity;
      if (pruning.time_bound) {
        ceiling = std::min(
            ceiling, front.ceiling(pace_of(plan, bounds.seconds_now(index)), plan.world, number));
      }
      if (state.refused.contains(number) || ceiling < Bytes{0} ||
          !host_floor_of(question_, plan).fits()) {
        continue;
      }
      if (pruning.memory_floor) {
        constexpr double kNoLimit = std::numeric_limits<double>::infinity();
        const Result<Ruled> ruled = bounds.rule_out(index, ceiling, kNoLimit);
        if (!ruled && !is_refusal(ruled.error())) {
          return ruled.error();
        }
        if (!ruled || ruled->too_large) {
          continue;
        }
      }
      const Result<LoweredPlan> lowered = lowered_.plans.of(plan, number);
      if (!lowered && !is_refusal(lowered.error())) {
        return lowered.error();
      }
      if (!lowered) {
        continue;
      }
      ++answer.evaluated;
      if (lowered->peak <= capacity && lowered->host_fits) {
        answer.plans.push_back({.plan = plan,
                                .time = lowered->time,
                                .peak = lowered->peak,
                                .capacity = capacity,
                                .number = number});
      }
    }
    return answer;
  }

  void add_counts(MemoryCounts& counts) const override {
    counts.lowered += lowered_.plans.lowered();
  }

 private:
  const SearchQuestion& question_;
  LoweredSearch lowered_;
};

}  // namespace

std::unique_ptr<Evaluator> FrameworkSearch::evaluator(const SearchInputs& inputs) const {
  return std::make_unique<LoweredEvaluator>(inputs, bounds(inputs));
}

std::unique_ptr<PlanBounds> FrameworkSearch::bounds(const SearchInputs& inputs) const {
  return std::make_unique<AloneBounds>(inputs.question.space.model, inputs.device,
                                       inputs.question.machine,
                                       inputs.records.of<AloneBounds::Samples>());
}

}  // namespace headroom::plan
