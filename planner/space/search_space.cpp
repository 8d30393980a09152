#include "planner/space/search_space.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <span>

#include "model_ir/plan/plan_words.h"
#include "planner/space/all_axes.h"
#include "runtimes/plan_check.h"
#include "runtimes/registry.h"

namespace headroom::plan {
namespace {

/// In a search, a 16-bit precision means 16-bit arithmetic with fp32 masters, and so does an 8-bit
/// recipe.
ir::Precision recipe_of(std::int64_t word) {
  if (eight_bit_recipe(word) != 0) {
    return ir::Precision::kBf16Master;
  }
  const ir::Precision precision = ir::precision_words()[static_cast<std::size_t>(word)].value;
  switch (precision) {
    case ir::Precision::kBf16:
      return ir::Precision::kBf16Master;
    case ir::Precision::kFp16:
      return ir::Precision::kFp16Master;
    default:
      return precision;
  }
}

/// Turns the axes of one space into cells.
class CellWriter {
 public:
  explicit CellWriter(const SpaceQuestion& question)
      : question_(question), allowed_(question.constraints) {
    for (const FrameworkSearch* const framework : framework_searches()) {
      if (is_asked(*framework) && can_have_plans(*framework)) {
        frameworks_.push_back({.search = framework, .axes = {}, .walk = SpaceWalk(question)});
        for (const SearchAxis& row : framework->axes()) {
          if (row.candidates != nullptr) {
            frameworks_.back().axes.push_back(&row);
          }
        }
      }
    }
  }

  std::vector<Cell> operator()() {
    for (const std::int64_t world : values_or(Axis::kGpus, question_.base.world)) {
      for (const std::int64_t sequence :
           values_or(Axis::kSequence, question_.base.workload.sequence)) {
        for (const std::int64_t precision : values_or(Axis::kPrecision, -1)) {
          for (const std::int64_t optimizer : values_or(Axis::kOptimizer, -1)) {
            ir::ParallelPlan plan = question_.base;
            plan.world = world;
            plan.workload.sequence = sequence;
            plan.precision = precision < 0 ? plan.precision : recipe_of(precision);
            if (optimizer >= 0) {
              plan.optimizer = ir::optimizer_words()[static_cast<std::size_t>(optimizer)].value;
            }
            write(plan, eight_bit_recipe(precision));
          }
        }
      }
    }
    return std::move(cells_);
  }

 private:
  struct Framework {
    const FrameworkSearch* search;
    std::vector<const SearchAxis*> axes;  ///< Those with candidates.
    SpaceWalk walk;
  };

  [[nodiscard]] AxisValues values_or(Axis axis, std::int64_t usual) const {
    const AxisValues& given = allowed_.of(axis);
    return given.empty() ? AxisValues{usual} : given;
  }

  [[nodiscard]] bool is_asked(const FrameworkSearch& framework) const {
    const AxisValues& named = allowed_.of(Axis::kRuntime);
    const AxisWords words = words_of_axis(Axis::kRuntime);
    const auto number = std::ranges::find(words, framework.runtime()) - words.begin();
    return named.empty() ? !framework.only_if_named()
                         : std::ranges::binary_search(named, std::int64_t{number});
  }

  /// Whether the constraints on axes that the framework does not have still permit a plan.
  [[nodiscard]] bool can_have_plans(const FrameworkSearch& framework) const {
    return std::ranges::all_of(all_axes(), [&](Axis axis) {
      return allowed_.of(axis).empty() || find_common_axis(axis) != nullptr ||
             find_axis(framework, axis) != nullptr ||
             (!axis->demanded && allowed_.allows(axis, axis->absent));
    });
  }

  void write(const ir::ParallelPlan& plan, int recipe) {
    for (Framework& framework : frameworks_) {
      SpaceWalk& walk = framework.walk;
      walk.plan = plan;
      walk.plan.runtime = framework.search->runtime();
      walk.optimizer = plan.optimizer;
      walk.eight_bit_recipe = recipe;
      if (framework.search->begin(walk)) {
        visit(framework, 0);
      }
    }
  }

  void visit(Framework& framework, std::size_t depth) {
    if (depth == framework.axes.size()) {
      write_cell(framework);
      return;
    }
    const SearchAxis& row = *framework.axes[depth];
    AxisValues values = row.candidates(framework.walk);
    for (const std::int64_t value :
         row.several ? std::move(values) : among(allowed_, row.axis, std::move(values))) {
      row.set(framework.walk, value);
      visit(framework, depth + 1);
    }
  }

  void write_cell(Framework& framework) {
    SpaceWalk& walk = framework.walk;
    ir::ParallelPlan before = walk.plan;
    const std::uint64_t choices = framework.search->choose_first(walk);
    const bool runs = choices > 0 && ir::check_plan(question_.model, walk.plan) &&
                      ir::runtime_of(walk.plan).check_device(walk.plan, question_.device);
    if (runs) {
      cells_.push_back(
          {.plan = std::move(walk.plan), .choices = choices, .framework = framework.search});
    }
    walk.plan = std::move(before);
  }

  const SpaceQuestion& question_;
  const Constraints& allowed_;
  std::vector<Framework> frameworks_;
  std::vector<Cell> cells_;
};

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

std::vector<Cell> cells_of(const SpaceQuestion& question) {
  return CellWriter(question)();
}

std::unique_ptr<const Choices> choices_of(const SpaceQuestion& question, const Cell& cell) {
  return cell.framework->choices(question, cell);
}

std::uint64_t count_plans(const std::vector<Cell>& cells) {
  return std::accumulate(cells.begin(), cells.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Cell& cell) { return sum + cell.choices; });
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
