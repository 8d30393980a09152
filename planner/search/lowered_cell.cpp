#include <algorithm>
#include <vector>

#include "costmodel/memory_floor.h"
#include "planner/search/lowered_bounds.h"
#include "planner/space/titan_space.h"

namespace headroom::plan {
namespace {

/// One visit of a cell whose plans are lowered whole: they come in the order of their bounds, and
/// what one takes is known when it has been lowered.
class LoweredVisit {
 public:
  LoweredVisit(const SearchState& state, const BoundedCell& cell, const Visit& visit)
      : state_(state),
        question_(state.question),
        cell_(cell),
        visit_(visit),
        capacity_(capacity_of(question_, cell.cell.plan)),
        choices_(choices_of(question_.space, cell.cell)),
        bounds_(state, cell, choices_) {}

  Result<CellAnswer> operator()() {
    if (question_.pruning.memory_floor &&
        cost::memory_floor(question_.space.model, cell_.cell.plan) > ceiling()) {
      return std::move(answer_);
    }
    std::optional<Timed> last = visit_.after;
    for (const Timed& bound : plans_by_bound()) {
      const Worth least = worth_of_bound(bound);
      if (answer_.best && question_.any) {
        break;
      }
      if (answer_.best && question_.pruning.time_bound && stops_at_first(question_) &&
          least > answer_.worth) {
        break;
      }
      if (!answer_.best && visit_.limit && least > *visit_.limit) {
        answer_.next = Next{.seconds = bound.seconds, .bound = least, .after = last};
        break;
      }
      last = bound;
      if (is_slower(bound.index)) {
        continue;
      }
      if (question_.pruning.memory_floor) {
        const Result<bool> above = bounds_.is_above(bound.index, ceiling());
        if (!above) {
          return above.error();
        }
        if (*above) {
          continue;
        }
      }
      if (Status status = evaluate(bound.index); !status) {
        return std::move(status).error();
      }
    }
    return std::move(answer_);
  }

  /// The plan that recomputes every layer, alone.
  Result<CellAnswer> leanest() {
    std::uint64_t index = 0;
    for (std::uint64_t i = 0; i < choices_.recomputations.size(); ++i) {
      index = choices_.recomputations[i].recompute == ir::Recompute::kNone ? index : i;
    }
    if (state_.refused.contains(cell_.first_number + index) ||
        cost::memory_floor(question_.space.model, cell_.cell.plan) > ceiling() ||
        state_.lowered.floor(choices_.recomputations[index]) > ceiling()) {
      return std::move(answer_);
    }
    const Status status = evaluate(index);
    return status ? Result<CellAnswer>(std::move(answer_)) : Result<CellAnswer>(status.error());
  }

 private:
  [[nodiscard]] Worth worth_of_bound(const Timed& bound) const {
    Worth worth = worth_of(question_.objective, cell_.cell.plan, bound.seconds, Bytes{0});
    worth.number = cell_.first_number + bound.index;
    return worth;
  }

  /// Those that may be the best, from the first that was not looked at.
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
    if (question_.objective == Objective::kMemory && question_.pruning.memory_floor) {
      // The leanest comes first: what it needs rules others out.
      std::vector<Bytes> floors(choices_.recomputations.size());
      for (const Timed& bound : order) {
        floors[bound.index] = state_.lowered.floor(choices_.recomputations[bound.index]);
      }
      std::ranges::stable_sort(order, {}, [&](const Timed& one) { return floors[one.index]; });
    }
    return order;
  }

  /// Whether what other plans took shows that the plan is of no use.
  [[nodiscard]] bool is_slower(std::uint64_t index) const {
    if (!question_.pruning.time_bound || !question_.pruning.dominance ||
        !is_titan(cell_.cell.plan)) {
      return false;
    }
    const Worth least = worth_of_bound({.seconds = bounds_.seconds_now(index), .index = index});
    return (visit_.incumbent && least > *visit_.incumbent) ||
           (answer_.best && least > answer_.worth);
  }

  /// A plan with a higher peak is of no use.
  [[nodiscard]] Bytes ceiling() const {
    Bytes most = capacity_;
    if (question_.objective == Objective::kMemory && visit_.incumbent) {
      most = std::min(most, Bytes{static_cast<std::int64_t>(visit_.incumbent->first)});
    }
    if (question_.objective == Objective::kMemory && answer_.best) {
      most = std::min(most, answer_.best->peak);
    }
    return most;
  }

  [[nodiscard]] Status evaluate(std::uint64_t index) {
    const std::uint64_t number = cell_.first_number + index;
    const ir::ParallelPlan& plan = choices_.recomputations[index];
    const Result<LoweredPlan> lowered = state_.lowered.of(plan, number);
    if (!lowered) {
      return lowered.error();
    }
    ++answer_.evaluated;
    const RatedPlan rated{.plan = plan,
                          .time = lowered->time,
                          .peak = lowered->peak,
                          .capacity = capacity_,
                          .number = number};
    if (rated.peak > capacity_) {
      if (!answer_.leanest || rated.peak < answer_.leanest->peak) {
        answer_.leanest = rated;
      }
      return ok();
    }
    Worth worth = worth_of(question_.objective, plan, rated.time.total().value(), rated.peak);
    worth.number = number;
    if (!answer_.best || worth < answer_.worth) {
      answer_.best = rated;
      answer_.worth = worth;
    }
    return ok();
  }

  const SearchState& state_;
  const SearchQuestion& question_;
  const BoundedCell& cell_;
  const Visit& visit_;
  Bytes capacity_;
  Choices choices_;
  LoweredBounds bounds_;
  CellAnswer answer_;
};

}  // namespace

Result<CellAnswer> search_lowered_cell(const SearchState& state, const BoundedCell& cell,
                                       const Visit& visit) {
  return LoweredVisit(state, cell, visit)();
}

Result<CellAnswer> leanest_of_lowered_cell(const SearchState& state, const BoundedCell& cell) {
  const Visit visit;
  return LoweredVisit(state, cell, visit).leanest();
}

}  // namespace headroom::plan
