#include "planner/search/evaluator.h"

#include <algorithm>

#include "costmodel/outside_memory.h"
#include "planner/space/all_axes.h"

namespace headroom::plan {

Worth worth_of(Objective objective, const ir::ParallelPlan& plan, double seconds, Bytes peak) {
  const auto gpus = static_cast<double>(plan.world);
  switch (objective) {
    case Objective::kThroughput:
      return {.first = seconds / static_cast<double>(plan.sequence)};
    case Objective::kGpus:
      return {.first = gpus, .second = seconds};
    case Objective::kMemory:
      return {.first = static_cast<double>(peak.value()), .second = seconds};
    case Objective::kCost:
      return {.first = gpus * seconds / static_cast<double>(plan.sequence)};
    case Objective::kMicroBatch:
      return {.first = -static_cast<double>(value_of(plan, Axis::kMicroBatch)), .second = seconds};
    case Objective::kSequence:
      return {.first = -static_cast<double>(plan.sequence), .second = seconds};
  }
  return {};
}

SearchState search_state(const SearchInputs& inputs, const std::vector<Cell>& cells) {
  SearchState state{.question = inputs.question, .evaluators = {}, .refused = {}};
  for (const Cell& cell : cells) {
    std::unique_ptr<Evaluator>& slot = state.evaluators[cell.framework];
    if (slot == nullptr) {
      slot = cell.framework->evaluator(inputs);
    }
  }
  return state;
}

BoundedCell bound_cell(const SearchState& state, Cell cell) {
  const SearchQuestion& question = state.question;
  BoundedCell bounded{.cell = std::move(cell), .first_number = 0, .bound = {}, .seconds = 0};
  Evaluator& evaluator = state.of(bounded.cell);
  bounded.seconds = evaluator.least_of_cell(bounded.cell).value();
  const Bytes floor = question.objective == Objective::kMemory
                          ? evaluator.cell_floor(bounded.cell, kMostBytes)
                          : Bytes{0};
  bounded.bound = worth_of(question.objective, bounded.cell.plan, bounded.seconds, floor);
  return bounded;
}

Bytes capacity_of(const SearchQuestion& question, const ir::ParallelPlan& plan) {
  const Bytes total = question.budget > Bytes{0} ? question.budget : question.device.total;
  const Bytes outside =
      cost::total_of(cost::outside_terms(question.space.model, plan, question.device));
  return std::max(total - outside, Bytes{0});
}

bool stops_at_first(const SearchQuestion& question) {
  return question.objective != Objective::kMemory;
}

}  // namespace headroom::plan
