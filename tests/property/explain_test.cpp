#include "planner/explain/explain.h"

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "costmodel/hardware/catalogue.h"
#include "planner/explain/infeasible.h"
#include "planner/space/all_axes.h"
#include "runtimes/megatron/search/axes.h"
#include "runtimes/megatron/search/plan_memory.h"
#include "tests/support/configs.h"
#include "tests/support/random.h"
#include "tests/support/rated_plans.h"
#include "tests/support/small_llama.h"

namespace headroom::plan {
namespace {

using test::kConfigs;

cost::DeviceSpec small_gpu() {
  return cost::load_device(kConfigs, "a10g").value();
}

/// Some plans of FSDP and Megatron for a small model on two A10G.
SearchQuestion small_question(const ir::ModelSpec& model) {
  SearchQuestion question = test::search_question(
      model, small_gpu(), cost::load_machine(kConfigs, small_gpu()).value(), 8);
  question.space.base.workload.sequence = 512;
  Constraints& constraints = question.space.constraints;
  constraints.of(Axis::kRuntime) = {2, 3};
  constraints.of(Axis::kGpus) = {2};
  constraints.of(Axis::kPipeline) = {1};
  constraints.of(Axis::kContext) = {1};
  constraints.of(Axis::kMicroBatch) = {2, 4};
  constraints.of(Axis::kLoss) = {2, 3};
  constraints.of(megatron_axes::kAccumulationFusion) = {1};
  if (test::kSanitized) {
    constraints.of(Axis::kRecompute) = {0, 1};
  }
  return question;
}

bool fits_replayed(const SearchQuestion& question, const ir::ParallelPlan& plan, Bytes budget) {
  return cost::estimate(question.space.model, plan, question.device, budget).value().verdict !=
         cost::Verdict::kDoesNotFit;
}

/// Whether any plan of the space fits when replayed.
bool any_fits(const SearchQuestion& question, Bytes budget) {
  for (const Cell& cell : cells_of(question.space)) {
    const auto choices = choices_of(question.space, cell);
    for (std::uint64_t index = 0; index < cell.choices; ++index) {
      if (fits_replayed(question, choices->plan_at(index), budget)) {
        return true;
      }
    }
  }
  return false;
}

const Mend* mend_of_kind(const Infeasibility& why, Mend::Kind kind) {
  const auto found = std::ranges::find(why.mends, kind, &Mend::kind);
  return found == why.mends.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("explain: the least budget is that of all plans replayed, and the peak the lowest") {
  const ir::ModelSpec model = test::small_llama();
  SearchQuestion question = small_question(model);
  question.budget = Bytes{kGiB};
  SearchRecords records;
  auto& memory = records.of<PlanMemory>(model, question.device);
  REQUIRE(search(question, records).value().status == PlanStatus::kInfeasible);
  const Infeasibility why = explain_infeasible(question, {}, {}, records).value();
  REQUIRE(why.leanest);
  CHECK(why.proven);
  const Mend* budget = mend_of_kind(why, Mend::Kind::kBudget);
  REQUIRE(budget != nullptr);
  CHECK(budget->proven);
  CHECK(fits_replayed(question, budget->plan.plan, Bytes{budget->value}));
  CHECK_FALSE(any_fits(question, Bytes{budget->value - 2 * kMiB}));
  for (const Cell& cell : cells_of(question.space)) {
    const auto choices = choices_of(question.space, cell);
    for (std::uint64_t index = 0; index < cell.choices; ++index) {
      CHECK(why.leanest->peak <= memory.peak(choices->plan_at(index)).value());
    }
  }
}

TEST_CASE("explain: with chances, the least budget is known to a five-hundredth" *
          doctest::skip(test::kSanitized)) {
  const ir::ModelSpec model = test::small_llama();
  SearchQuestion question = small_question(model);
  question.device.total = Bytes{kGiB + 512 * kMiB};  // PyTorch does not get all of it.
  question.confidence = 0.9;
  // A chance that grows with what is left of the device.
  question.judge = [](const ir::ParallelPlan& /*plan*/, cost::StepEstimate& estimate) {
    const double left = 1 - static_cast<double>(estimate.peak_reserved.value()) /
                                static_cast<double>(estimate.device_total.value());
    estimate.chance = std::clamp(10 * left, 0.0, 1.0);
  };
  std::vector<OtherDevice> others;
  for (const char* const name : {"rtx-3090", "a10g"}) {
    const cost::DeviceSpec device = cost::load_device(kConfigs, name).value();
    others.push_back({device, cost::load_machine(kConfigs, device).value()});
  }
  others.front().device.total = Bytes{2 * kGiB};
  SearchRecords records;
  const Infeasibility why = explain_infeasible(question, {}, others, records).value();
  const Mend* budget = mend_of_kind(why, Mend::Kind::kBudget);
  REQUIRE(budget != nullptr);
  CHECK(budget->proven);
  REQUIRE(budget->chance);
  CHECK(*budget->chance >= 0.9);
  SearchQuestion less = question;
  less.any = true;
  less.budget = Bytes{budget->value - budget->value / 500 - 4 * kMiB};
  CHECK(search(less, records).value().status == PlanStatus::kInfeasible);
  const Mend* device = mend_of_kind(why, Mend::Kind::kDevice);
  REQUIRE(device != nullptr);
  CHECK(device->device == "a10g");
}

TEST_CASE("explain: every change makes the request feasible, and no smaller one does" *
          doctest::skip(test::kSanitized)) {
  const ir::ModelSpec model = test::small_llama();
  SearchQuestion question = small_question(model);
  SearchRecords records;
  question.budget = Bytes{kGiB};
  const Infeasibility need = explain_infeasible(question, {}, {}, records).value();
  // Room for less than micro-batches of two need.
  question.budget = Bytes{mend_of_kind(need, Mend::Kind::kBudget)->value - 16 * kMiB};
  const Infeasibility why = explain_infeasible(question, {}, {}, records).value();
  int axes = 0;
  for (const Mend& mend : why.mends) {
    CAPTURE(static_cast<int>(mend.kind));
    const Bytes budget = mend.kind == Mend::Kind::kBudget ? Bytes{mend.value} : question.budget;
    CHECK(fits_replayed(question, mend.plan.plan, budget));
    axes += mend.kind == Mend::Kind::kAxis ? 1 : 0;
    if (mend.kind == Mend::Kind::kAxis && mend.value >= 0) {
      CHECK(value_of(mend.plan.plan, mend.axis) == mend.value);
    }
    if (mend.kind == Mend::Kind::kAxis && mend.axis == Axis::kMicroBatch) {
      CHECK(mend.value == 1);
    }
  }
  CHECK(axes > 0);
  const Mend* gpus = mend_of_kind(why, Mend::Kind::kGpus);
  REQUIRE(gpus != nullptr);
  for (std::int64_t fewer = 1; fewer < gpus->value; ++fewer) {
    SearchQuestion less = question;
    less.space.constraints.of(Axis::kGpus) = {fewer};
    CHECK((cells_of(less.space).empty() || !search(less, records).value().best));
  }
}

TEST_CASE("explain: the value that the best plan has is known on every axis") {
  const ir::ModelSpec model = test::small_llama();
  const SearchQuestion question = small_question(model);
  SearchRecords records;
  const PlanResult found = search(question, records).value();
  REQUIRE(found.best);
  for (const Axis axis : all_axes()) {
    const std::int64_t value = value_of(found.best->plan, axis);
    CAPTURE(axis->option);
    const WhyNot why = why_not(question, found, axis, value, records).value();
    CHECK(why.kind == WhyNot::Kind::kChosen);
  }
}

}  // namespace headroom::plan
