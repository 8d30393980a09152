#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include "costmodel/estimate.h"
#include "costmodel/expert_load.h"
#include "planner/search/evaluator.h"
#include "planner/search/search.h"
#include "tests/support/random.h"
#include "tests/support/rated_plans.h"
#include "tests/support/search_models.h"

/// Routings of tokens to experts: the certified worst, and the constraint of the search.
namespace headroom::plan {
namespace {

constexpr int kPlans = test::kSanitized ? 4 : 30;

/// Plans of Megatron with experts on several ranks.
SearchQuestion routed_question(const ir::ModelSpec& model) {
  static const cost::Machine machine = cost::load_machine(test::kConfigs, test::h100()).value();
  SearchQuestion question = test::search_question(model, test::h100(), machine, 8);
  question.space.device = question.device.traits;
  question.space.base.workload.sequence = 256;
  Constraints& constraints = question.space.constraints;
  constraints.of(Axis::kRuntime) = {3};
  constraints.of(Axis::kGpus) = {4};
  constraints.of(Axis::kContext) = {1};
  constraints.of(Axis::kExpert) = {2, 4};
  constraints.of(Axis::kMicroBatch) = {1, 2};
  return question;
}

/// Plans of the space, drawn at random.
std::vector<ir::ParallelPlan> some_plans(test::Random& random, const SearchQuestion& question,
                                         int count) {
  std::vector<ir::ParallelPlan> plans;
  const std::vector<Cell> cells = cells_of(question.space);
  for (int i = 0; i < count; ++i) {
    const Cell& cell = cells[static_cast<std::size_t>(
        random.between(0, static_cast<std::int64_t>(cells.size()) - 1))];
    const auto index = random.between(0, static_cast<std::int64_t>(cell.choices) - 1);
    plans.push_back(choices_of(question.space, cell)->plan_at(static_cast<std::uint64_t>(index)));
  }
  return plans;
}

Bytes allocated_with(const SearchQuestion& question, const ir::ParallelPlan& plan, double load) {
  return cost::estimate(question.space.model, cost::with_load(plan, load), question.device)
      .value()
      .peak_allocated;
}

}  // namespace

TEST_CASE("routing: no load allocates more than the worst, which reaches the bound within 1 %") {
  test::Random random = test::seeded_random(2601);
  CAPTURE(random.seed());
  const ir::ModelSpec model = test::tiny_model(3, 1);
  const SearchQuestion question = routed_question(model);
  int larger = 0;
  for (const ir::ParallelPlan& plan : some_plans(random, question, kPlans)) {
    const std::optional<cost::WorstLoad> worst = cost::worst_load_of(model, plan);
    REQUIRE(worst);
    // Four experts, two for each token: over e ranks, at most e min(2, 4 / e) / 2.
    CHECK(worst->reached == 2.0);
    CHECK(worst->bound == 2.0);
    const Bytes bound = allocated_with(question, plan, worst->bound);
    const Bytes witness = allocated_with(question, plan, worst->reached);
    CHECK(static_cast<double>(witness.value()) >= 0.99 * static_cast<double>(bound.value()));
    Bytes before{0};
    for (const double load :
         {0.01, 0.5, 1.0, 1.0 + 0.01 * static_cast<double>(random.between(1, 99))}) {
      CAPTURE(load);
      const Bytes peak = allocated_with(question, plan, load);
      CHECK(peak <= bound);
      CHECK(peak >= before);
      before = peak;
    }
    larger += before < bound ? 1 : 0;
  }
  CHECK(larger > kPlans / 2);
}

TEST_CASE("routing: in 8 bits the bound has the rows that pad experts") {
  const ir::ModelSpec model = test::tiny_model(3, 0);
  SearchQuestion question = routed_question(model);
  question.space.constraints.of(Axis::kPrecision) =
      parse_axis(Axis::kPrecision, "fp8-tensorwise").value();
  question.space.base.workload.sequence = 4096;
  test::Random random = test::seeded_random(2602);
  for (const ir::ParallelPlan& plan : some_plans(random, question, 4)) {
    const cost::WorstLoad worst = cost::worst_load_of(model, plan).value();
    CHECK(worst.bound > worst.reached);
    CHECK(worst.bound < 1.03 * worst.reached);
    const Bytes bound = allocated_with(question, plan, worst.bound);
    const Bytes witness = allocated_with(question, plan, worst.reached);
    CHECK(witness <= bound);
    CHECK(static_cast<double>(witness.value()) >= 0.99 * static_cast<double>(bound.value()));
  }
}

TEST_CASE("routing: where no load depends on it, the worst is an even share or not known") {
  const ir::ModelSpec model = test::tiny_model(3, 0);
  SearchQuestion question = routed_question(model);
  question.space.constraints.of(Axis::kExpert) = {1};
  test::Random random = test::seeded_random(2603);
  for (const ir::ParallelPlan& plan : some_plans(random, question, 3)) {
    CHECK(cost::worst_load_of(model, plan)->bound == 1);
    CHECK(cost::busy_load_of(model, plan, 0.5) == 1);
  }
  ir::ParallelPlan other;
  other.runtime = "transformers";
  CHECK_FALSE(cost::worst_load_of(model, other));
  CHECK_FALSE(cost::worst_load_of(test::small_model(), other));
}

TEST_CASE("routing: the search keeps room for the busiest rank, to the byte") {
  const ir::ModelSpec model = test::tiny_model(3, 1);
  test::Random random = test::seeded_random(2604);
  CAPTURE(random.seed());
  for (int i = 0; i < 4; ++i) {
    CAPTURE(i);
    SearchQuestion question = routed_question(model);
    question.space.constraints.of(Axis::kTensor) = {1};
    question.space.constraints.of(Axis::kPipeline) = {1};
    question.space.constraints.of(Axis::kRecompute) = {0, 3};
    question.imbalance = 0.1 * static_cast<double>(random.between(1, 8));
    question.objective = random.pick<Objective>(
        {Objective::kThroughput, Objective::kMemory, Objective::kMicroBatch});
    const PlanResult found = search(question).value();
    REQUIRE(found.best);
    const double load = load_of(question, found.best->plan);
    CHECK(load > 1);
    CHECK(found.best->peak == allocated_with(question, found.best->plan, load));
    CHECK(found.estimate->peak_allocated == found.best->peak);
    // The time is that of even shares.
    const auto even =
        cost::estimate(model, found.best->plan, question.device, Bytes{0}, &question.machine);
    CHECK(found.estimate->time->total == even->time->total);
  }
}

}  // namespace headroom::plan
