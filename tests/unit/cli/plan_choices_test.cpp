#include "cli/plan_choices.h"

#include <vector>

#include <doctest/doctest.h>

namespace headroom::cli {
namespace {

/// Two GPU types under one objective, the second with another price.
GpuTypes priced_types(plan::Objective objective) {
  GpuTypes types;
  types.types.resize(2);
  for (GpuType& type : types.types) {
    type.search.objective = objective;
    type.search.base.workload.sequence = 1024;
  }
  types.run.costs.resize(2);
  types.run.costs[0].dollars_per_gpu_hour = 2.0;
  types.run.costs[1].dollars_per_gpu_hour = 3.0;
  return types;
}

/// The result of a search whose best plan takes ten seconds on eight GPUs.
plan::PlanResult found_plan(plan::PlanStatus status, double bound) {
  plan::PlanResult result;
  result.status = status;
  plan::RatedPlan best;
  best.plan.world = 8;
  best.plan.workload.sequence = 1024;
  best.plan.workload.micro_batch = 4;
  best.time.forward_backward = Seconds{10};
  best.peak = Bytes{1000};
  result.best = best;
  result.bound = bound;
  return result;
}

plan::PlanResult doubted(plan::Objective objective, plan::PlanResult first,
                         const plan::PlanResult& second) {
  const GpuTypes types = priced_types(objective);
  plan::PlanResult best = first;
  doubt_best_type(types, {first, second}, 0, best);
  return best;
}

using enum plan::PlanStatus;
using plan::Objective;

}  // namespace

TEST_CASE("GPU types: the best is proven where the others were searched to their end") {
  const plan::PlanResult best =
      doubted(Objective::kCost, found_plan(kOptimal, 80), found_plan(kOptimal, 80));
  CHECK(best.status == kOptimal);
  CHECK(best.bound == 80);
  CHECK(best.gap == 0);
}

TEST_CASE("GPU types: a search of another type that was stopped widens the gap of the cost") {
  // Eighty GPU seconds at two dollars; the other type may still have forty at three dollars, which
  // are worth sixty of the first.
  const plan::PlanResult best =
      doubted(Objective::kCost, found_plan(kOptimal, 80), found_plan(kFeasible, 40));
  CHECK(best.status == kFeasible);
  CHECK(best.bound == doctest::Approx(60));
  CHECK(best.gap == doctest::Approx(0.25));
  // Seventy are worth more than the plan that was found.
  const plan::PlanResult sure =
      doubted(Objective::kCost, found_plan(kOptimal, 80), found_plan(kFeasible, 70));
  CHECK(sure.bound == 80);
  CHECK(sure.gap == 0);
}

TEST_CASE("GPU types: a type without a price casts no doubt on the cheapest") {
  GpuTypes types = priced_types(Objective::kCost);
  types.run.costs[1].dollars_per_gpu_hour.reset();
  plan::PlanResult best = found_plan(kOptimal, 80);
  doubt_best_type(types, {best, found_plan(kUnknown, 1)}, 0, best);
  CHECK(best.status == kOptimal);
  CHECK(best.gap == 0);
}

TEST_CASE("GPU types: each objective's gap counts what the other type may have") {
  CHECK(doubted(Objective::kThroughput, found_plan(kOptimal, 10), found_plan(kFeasible, 8)).gap ==
        doctest::Approx(0.2));
  CHECK(doubted(Objective::kGpus, found_plan(kOptimal, 8), found_plan(kFeasible, 4)).gap ==
        doctest::Approx(0.5));
  CHECK(doubted(Objective::kMemory, found_plan(kOptimal, 1000), found_plan(kFeasible, 900)).gap ==
        doctest::Approx(0.1));
  const plan::PlanResult larger =
      doubted(Objective::kMicroBatch, found_plan(kOptimal, 4), found_plan(kFeasible, 8));
  CHECK(larger.bound == 8);
  CHECK(larger.gap == doctest::Approx(1));
}

TEST_CASE("GPU types: nothing is known of a type whose space was not listed") {
  plan::PlanResult other;
  other.status = kUnknown;
  other.cut = true;
  const plan::PlanResult best = doubted(Objective::kThroughput, found_plan(kOptimal, 10), other);
  CHECK(best.status == kFeasible);
  CHECK(best.cut);
  CHECK(best.bound == 0);
  CHECK(best.gap == 1);
}

}  // namespace headroom::cli
