// What the user says about axes binds every plan of the space and every plan of an answer.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/json/json_value.h"
#include "planner/search/search.h"
#include "planner/space/all_axes.h"
#include "runtimes/plan_check.h"
#include "runtimes/plan_json.h"
#include "runtimes/registry.h"
#include "tests/support/random.h"
#include "tests/support/rated_plans.h"
#include "tests/support/search_models.h"

namespace headroom::plan {
namespace {

std::int64_t random_index(test::Random& random, std::uint64_t size) {
  return random.between(0, static_cast<std::int64_t>(size) - 1);
}

/// A plan of the space; nothing if it is empty.
std::optional<ir::ParallelPlan> drawn_plan(test::Random& random, const SpaceQuestion& space) {
  const std::vector<Cell> cells = cells_of(space);
  if (cells.empty()) {
    return std::nullopt;
  }
  const Cell& cell = cells[static_cast<std::size_t>(random_index(random, cells.size()))];
  return choices_of(space, cell)
      ->plan_at(static_cast<std::uint64_t>(random_index(random, cell.choices)));
}

/// Another value than `value`, which no plan may have.
std::int64_t other_value(test::Random& random, Axis axis, std::int64_t value) {
  const AxisWords words = words_of_axis(axis);
  return words.empty() ? random.pick<std::int64_t>({value + 1, 2 * value, value / 2})
                       : random_index(random, words.size());
}

/// Says something about a few axes of the framework, so that the space keeps the plan `one`.
void narrow(test::Random& random, SpaceQuestion& space, const ir::ParallelPlan& one) {
  const FrameworkSearch& framework = search_of(one);
  for (const Axis axis : all_axes()) {
    const bool has = find_common_axis(axis) != nullptr || find_axis(framework, axis) != nullptr;
    if (!has || !space.constraints.of(axis).empty() || !random.chance(1, 4)) {
      continue;
    }
    const std::int64_t value = value_of(one, axis);
    std::set<std::int64_t> values = {value};
    if (random.chance(1, 2)) {
      values.insert(other_value(random, axis, value));
    }
    space.constraints.of(axis) = {values.begin(), values.end()};
    if (cells_of(space).empty()) {  // A model without experts takes no value of etp.
      space.constraints.of(axis) = {};
    }
  }
}

/// Whether the user allows the value of `plan`, by this name or by one that its framework reads as
/// the same.
bool is_allowed(const Constraints& constraints, Axis axis, const ir::ParallelPlan& plan) {
  const AxisValues& given = constraints.of(axis);
  const ir::OptimizerPlan host{.kind = ir::OptimizerKind::kAdamW,
                               .form = ir::OptimizerForm::kFused};
  if (axis == Axis::kOptimizer && plan.optimizer == host && value_of(plan, Axis::kOffload) > 0) {
    // The host's AdamW is fused, whichever of the two was asked for.
    const auto words = ir::optimizer_words();
    return given.empty() || std::ranges::any_of(given, [&](std::int64_t one) {
             const ir::OptimizerPlan& asked = words[static_cast<std::size_t>(one)].value;
             return asked == host || asked == ir::OptimizerPlan{};
           });
  }
  return given.empty() || std::ranges::any_of(given, [&](std::int64_t one) {
           return search_of(plan).read(axis, one) == value_of(plan, axis);
         });
}

/// Whether `plan` has allowed values alone and its framework takes it.
void check_allowed(const SpaceQuestion& space, const ir::ParallelPlan& plan) {
  CAPTURE(ir::to_json(ir::plan_to_json(plan)));
  for (const Axis axis : all_axes()) {
    CAPTURE(axis->option);
    CAPTURE(value_text(axis, value_of(plan, axis)));
    CHECK(is_allowed(space.constraints, axis, plan));
  }
  CHECK(ir::check_plan(space.model, plan));
}

/// Some plans of the space; how many.
int check_space(test::Random& random, const SpaceQuestion& space) {
  constexpr std::size_t kCells = 12;
  constexpr std::uint64_t kPlans = 8;
  const std::vector<Cell> cells = cells_of(space);
  int checked = 0;
  for (std::size_t turn = 0; turn < std::min(kCells, cells.size()); ++turn) {
    const Cell& cell = cells[static_cast<std::size_t>(random_index(random, cells.size()))];
    const auto choices = choices_of(space, cell);
    for (std::uint64_t again = 0; again < std::min(kPlans, cell.choices); ++again, ++checked) {
      check_allowed(
          space, choices->plan_at(static_cast<std::uint64_t>(random_index(random, cell.choices))));
    }
  }
  return checked;
}

/// The plans of an answer; how many.
int check_answer(SearchQuestion question, SearchRecords& records) {
  question.work_limit = 4;
  question.front = true;
  const PlanResult found = search_unreplayed(question, records).value();
  int checked = 0;
  if (found.best) {
    check_allowed(question.space, found.best->plan);
    ++checked;
  }
  for (const RatedPlan& one : found.front) {
    check_allowed(question.space, one.plan);
    ++checked;
  }
  return checked;
}

}  // namespace

TEST_CASE("search: every plan of every framework has the values that were allowed") {
  test::Random random = test::seeded_random(931);
  CAPTURE(random.seed());
  const std::vector<ir::ModelSpec> models = {test::small_model(), test::tiny_model(4, 1)};
  std::vector<SearchRecords> records(models.size());
  std::map<std::string, int, std::less<>> in_space;
  std::map<std::string, int, std::less<>> in_answers;
  for (int round = 0; round < (test::kSanitized ? 3 : 24); ++round) {
    const std::size_t model = static_cast<std::size_t>(round) % models.size();
    for (const std::string_view name : ir::runtime_words()) {
      CAPTURE(round);
      CAPTURE(name);
      SearchQuestion question = test::search_question(models[model], test::h100(), test::dgx(), 8);
      question.space.base.workload.sequence = 512;
      Constraints& constraints = question.space.constraints;
      constraints.of(Axis::kRuntime) = parse_axis(Axis::kRuntime, name).value();
      constraints.of(Axis::kGpus) = test::few_of(random, {1, 2, 4});
      const std::optional<ir::ParallelPlan> one = drawn_plan(random, question.space);
      if (!one) {
        continue;  // LitGPT, on several GPUs.
      }
      narrow(random, question.space, *one);
      const int checked = check_space(random, question.space);
      CHECK(checked > 0);
      in_space[std::string(name)] += checked;
      in_answers[std::string(name)] += check_answer(question, records[model]);
    }
  }
  for (const std::string_view name : ir::runtime_words()) {
    CAPTURE(name);
    CHECK(in_space[std::string(name)] > 0);
    CHECK(in_answers[std::string(name)] > 0);
  }
}

}  // namespace headroom::plan
