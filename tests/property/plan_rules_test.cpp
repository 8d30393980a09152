// The content of a search space, and the refusal of a question without any plan.

#include <algorithm>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "planner/search/search.h"
#include "runtimes/megatron/search/axes.h"
#include "runtimes/plan_check.h"
#include "tests/support/random.h"
#include "tests/support/random_question.h"
#include "tests/support/search_models.h"

namespace headroom::plan {

using test::random_megatron_question;
using test::small_model;

TEST_CASE("space: precisions and optimizers are what they were unless they are asked for") {
  test::Random random = test::seeded_random(510);
  const ir::ModelSpec model = small_model();
  SearchQuestion question = random_megatron_question(random, model);
  const std::vector<Cell> usual = cells_of(question.space);
  for (const Cell& cell : usual) {
    CHECK(cell.plan.precision == ir::Precision::kBf16Master);
    CHECK(cell.plan.optimizer == ir::OptimizerPlan{});
  }
  Constraints& constraints = question.space.constraints;
  constraints.of(Axis::kPrecision) = parse_axis(Axis::kPrecision, "any").value();
  constraints.of(Axis::kOptimizer) = parse_axis(Axis::kOptimizer, "any").value();
  const std::vector<Cell> all = cells_of(question.space);
  CHECK(all.size() == 3 * usual.size());  // Megatron has AdamW alone, under one name.
}

TEST_CASE("space: mesh order and the optimizer's share on the host are held unless asked for") {
  test::Random random = test::seeded_random(511);
  const ir::ModelSpec model = small_model();
  SearchQuestion question = random_megatron_question(random, model);
  question.space.constraints.of(Axis::kGpus) = {4};
  question.space.constraints.of(megatron_axes::kDistributedOptimizer) = {1};
  const auto plans = [&](const char* order, const char* share) {
    Constraints& constraints = question.space.constraints;
    constraints.of(megatron_axes::kMeshOrder) =
        order == nullptr ? AxisValues{} : parse_axis(megatron_axes::kMeshOrder, order).value();
    constraints.of(Axis::kOptimizerOffload) =
        share == nullptr ? AxisValues{} : parse_axis(Axis::kOptimizerOffload, share).value();
    return count_plans(cells_of(question.space));
  };
  const std::uint64_t usual = plans(nullptr, nullptr);
  CHECK(plans("tp-cp-ep-dp-pp", "0") == usual);
  CHECK(plans("tp-cp-ep-pp-dp", nullptr) == usual);  // Each order is one of every plan.
  CHECK(plans(nullptr, "0.25,1") == 2 * usual);
  CHECK(plans(nullptr, "any") == 5 * usual);
  question.space.constraints.of(Axis::kPipeline) = {1};
  CHECK(plans("any", nullptr) == plans(nullptr, nullptr));  // Without stages both are the same.
  question.space.constraints.of(Axis::kPipeline) = {2, 4};
  CHECK(plans("any", nullptr) == 2 * plans(nullptr, nullptr));
  CHECK_FALSE(parse_axis(Axis::kOptimizerOffload, "0.3"));
  question.space.base.precision = ir::Precision::kFp32;  // No hybrid optimizer there.
  CHECK(plans(nullptr, "1") == 0);
}

TEST_CASE("search: constraints that contradict each other are named") {
  test::Random random = test::seeded_random(505);
  const ir::ModelSpec model = small_model();
  SearchQuestion question = random_megatron_question(random, model);
  question.space.constraints.of(Axis::kGpus) = {4};
  question.space.constraints.of(Axis::kTensor) = {4};
  question.space.constraints.of(Axis::kPipeline) = {4};
  const Result<PlanResult> found = search(question);
  REQUIRE(!found);
  CHECK(found.error().got == "--tp 4 with --pp 4");
  CHECK(found.error().wanted.find("4 (heads)") != std::string::npos);
  CHECK(found.error().fix == "use --tp 1, or --pp 1");
}

TEST_CASE("search: a value that no plan can have is named with its rule and what works") {
  test::Random random = test::seeded_random(514);
  const ir::ModelSpec model = small_model();
  SearchQuestion question = random_megatron_question(random, model);
  question.space.constraints.of(Axis::kGpus) = {4};
  question.space.constraints.of(Axis::kTensor) = {3};
  const Result<PlanResult> one = search(question);
  REQUIRE(!one);
  CHECK(one.error().key == "tp");
  CHECK(one.error().got == "3");
  CHECK(one.error().wanted.find("4 (GPUs)") != std::string::npos);
  CHECK(one.error().fix == "use --tp 1,2,4");
  // Three that only together leave nothing: four GPUs cannot be cut eight ways.
  question.space.constraints.of(Axis::kTensor) = {2};
  question.space.constraints.of(Axis::kPipeline) = {2};
  question.space.constraints.of(Axis::kContext) = {2};
  const Result<PlanResult> three = search(question);
  REQUIRE(!three);
  CHECK(three.error().got == "--tp 2 with --pp 2 with --cp 2");
}

TEST_CASE("space: every cell's plans are accepted, and counted") {
  test::Random random = test::seeded_random(506);
  const ir::ModelSpec model = small_model();
  SearchQuestion question = random_megatron_question(random, model);
  question.space.constraints.of(Axis::kRuntime) = {};
  std::uint64_t plans = 0;
  for (const Cell& cell : cells_of(question.space)) {
    const auto choices = choices_of(question.space, cell);
    CHECK(cell.choices == choices->size());
    for (std::uint64_t index = 0; index < cell.choices; ++index) {
      CHECK(ir::check_plan(model, choices->plan_at(index)));
    }
    plans += cell.choices;
  }
  CHECK(plans == count_plans(cells_of(question.space)));
  CHECK(plans > 100);
}

}  // namespace headroom::plan
