#include "planner/space/axis_value.h"

#include <algorithm>
#include <set>

#include "model_ir/plan/plan_words.h"
#include "planner/space/framework_search.h"
#include "runtimes/registry.h"

namespace headroom::plan {
namespace {

std::int64_t position_of(AxisWords words, std::string_view word) {
  const auto found = std::ranges::find(words, word);
  return found == words.end() ? -1 : found - words.begin();
}

std::int64_t optimizer_of(const ir::ParallelPlan& plan) {
  ir::OptimizerPlan optimizer = plan.optimizer;
  if (optimizer.kind == ir::OptimizerKind::kAdamW && optimizer.form == ir::OptimizerForm::kFused &&
      value_of(plan, Axis::kOffload) > 0) {
    optimizer.form = ir::OptimizerForm::kForeach;  // The host's own AdamW is called adamw as well.
  }
  const auto words = ir::optimizer_words();
  const auto found = std::ranges::find(words, optimizer, &ir::Word<ir::OptimizerPlan>::value);
  return found == words.end() ? -1 : found - words.begin();
}

AxisValues words_within_cells(const SpaceQuestion& question, Axis axis) {
  if (is_held(axis) && question.constraints.of(axis).empty()) {
    return {0};
  }
  AxisValues values;
  const auto words = static_cast<std::int64_t>(words_of_axis(axis).size());
  for (std::int64_t value = 0; value < words; ++value) {
    SpaceQuestion with = question;
    with.constraints.of(axis) = {value};
    if (question.constraints.allows(axis, value) && !cells_of(with).empty()) {
      values.push_back(value);
    }
  }
  return values;
}

}  // namespace

std::int64_t value_of(const ir::ParallelPlan& plan, Axis axis) {
  if (axis == Axis::kRuntime) {
    return position_of(words_of_axis(axis), plan.runtime);
  }
  if (axis == Axis::kGpus) {
    return plan.world;
  }
  if (axis == Axis::kSequence) {
    return plan.sequence;
  }
  if (axis == Axis::kOptimizer) {
    return optimizer_of(plan);
  }
  const FrameworkSearch& framework = search_of(plan);
  if (axis == Axis::kPrecision) {
    return framework.precision_of(plan);
  }
  const SearchAxis* const own = find_axis(framework, axis);
  return own == nullptr ? axis->absent : own->get(plan);
}

AxisValues values_in_space(const SpaceQuestion& question, Axis axis) {
  if (axis->within_cells && axis->words != nullptr) {
    return words_within_cells(question, axis);
  }
  std::set<std::int64_t> values;
  if (axis->within_cells) {
    for (const FrameworkSearch* const framework : framework_searches()) {
      const AxisValues some = framework->numbers_within_cells(question, axis);
      values.insert(some.begin(), some.end());
    }
    return {values.begin(), values.end()};
  }
  for (const Cell& cell : cells_of(question)) {
    const AxisValues some = cell.framework->values_of(question, cell, axis);
    values.insert(some.begin(), some.end());
  }
  return {values.begin(), values.end()};
}

}  // namespace headroom::plan
