#include "planner/search/timely_search.h"

#include <cstdint>

#include <doctest/doctest.h>

#include "costmodel/time/machine.h"
#include "tests/support/configs.h"
#include "tests/support/random.h"
#include "tests/support/rated_plans.h"
#include "tests/support/search_models.h"

/// Searches for the best plan that is fast enough.
namespace headroom::plan {
namespace {

SearchQuestion random_question(test::Random& random, const ir::ModelSpec& model) {
  static const cost::Machine machine = cost::load_machine(test::kConfigs, test::h100()).value();
  SearchQuestion question = test::search_question(model, test::h100(), machine, 8);
  question.space.base.workload.sequence = 64 * random.between(1, 8);
  question.objective = random.pick<Objective>(
      {Objective::kThroughput, Objective::kGpus, Objective::kMemory, Objective::kMicroBatch});
  Constraints& constraints = question.space.constraints;
  constraints.of(Axis::kRuntime) = {3};
  constraints.of(Axis::kGpus) = random.chance(1, 2) ? AxisValues{1, 2} : AxisValues{2, 4};
  constraints.of(Axis::kPipeline) = {1};
  constraints.of(Axis::kTensor) = {1};
  constraints.of(Axis::kContext) = {1};
  constraints.of(Axis::kMicroBatch) = test::few_of(random, {1, 2, 4});
  constraints.of(Axis::kRecompute) = {0, 3};
  return question;
}

}  // namespace

TEST_CASE("search: with a limit of the step, the replay of the best plan keeps it") {
  const ir::ModelSpec model = test::tiny_model(3, 3);
  test::Random random = test::seeded_random(2620);
  CAPTURE(random.seed());
  int kept = 0;
  int late = 0;
  for (int round = 0; round < (test::kSanitized ? 4 : 8); ++round) {
    CAPTURE(round);
    SearchQuestion question = random_question(random, model);
    SearchRecords records;
    const PlanResult free = search(question, records).value();
    REQUIRE(free.best);
    // Around what the search takes for the time of its best plan, and the replay's.
    const auto tokens = static_cast<double>(question.space.base.workload.sequence);
    const double searched = free.best->time.total().value();
    const double replayed = free.estimate->time->total.value();
    const double share = static_cast<double>(random.between(-5, 20)) / 10;
    question.longest = Seconds{(searched + share * (replayed - searched)) / tokens};
    const PlanResult found = search_in_time(question, records).value();
    if (found.best) {
      ++kept;
      CHECK(found.estimate->time->total.value() <= tokens * question.longest.value());
    } else {
      ++late;
      CHECK(found.late);
    }
  }
  CHECK(kept > 0);
  CHECK(late > 0);
}

}  // namespace headroom::plan
