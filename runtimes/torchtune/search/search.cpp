#include "runtimes/torchtune/search/search.h"

#include <utility>

#include "costmodel/memory_floor.h"
#include "planner/evaluate/plan_bounds.h"
#include "planner/search/evaluator.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/fsdp/search/search.h"
#include "runtimes/plan_check.h"
#include "runtimes/registry.h"
#include "runtimes/torchtune/plan.h"
#include "runtimes/transformers/search/search.h"

namespace headroom::plan {
namespace {

using ir::ParallelPlan;
using ir::TunePlan;

template <bool TunePlan::*kMember>
std::int64_t get_tune_switch(const ParallelPlan& plan) {
  return tune_of(plan).*kMember ? 1 : 0;
}

/// A row of a switch of the recipes, which is chosen within a cell.
template <bool TunePlan::*kMember>
SearchAxis switch_axis(Axis axis, std::string (*rule)(const SpaceQuestion&)) {
  return {.axis = axis, .get = get_tune_switch<kMember>, .rule = rule};
}

std::string compile_rule(const SpaceQuestion& /*question*/) {
  return "no, or where it is asked for yes with recompute full";
}

std::string offload_rule(const SpaceQuestion& /*question*/) {
  return "no, or yes with recompute full on one GPU";
}

std::string backward_rule(const SpaceQuestion& /*question*/) {
  return "no, or yes on one GPU with one micro-batch in a step";
}

std::vector<SearchAxis> tune_rows() {
  std::vector<SearchAxis> rows = sharding_axes();
  for (SearchAxis& row : transformers_axes()) {
    rows.push_back(std::move(row));
  }
  rows.push_back(switch_axis<&TunePlan::compiled>(Axis::kCompiled, compile_rule));
  rows.push_back(
      switch_axis<&TunePlan::offload_activations>(tune_axes::kOffloadActivations, offload_rule));
  rows.push_back(switch_axis<&TunePlan::optimizer_in_backward>(tune_axes::kOptimizerInBackward,
                                                               backward_rule));
  return rows;
}

/// `plans` with every allowed combination of the recipes' switches that torchtune accepts.
std::vector<ParallelPlan> with_switches(const SpaceQuestion& question,
                                        const std::vector<ParallelPlan>& plans) {
  const Constraints& allowed = question.constraints;
  const bool may_compile = !allowed.of(Axis::kCompiled).empty();
  std::vector<ParallelPlan> all;
  for (const ParallelPlan& plan : plans) {
    for (unsigned bits = 0; bits < 8; ++bits) {
      ParallelPlan with = plan;
      TunePlan& tune = edit_tune(with);
      tune = {.compiled = (bits & 1U) != 0,
              .optimizer_in_backward = (bits & 2U) != 0,
              .offload_activations = (bits & 4U) != 0};
      const bool asked =
          (may_compile || !tune.compiled) &&
          allowed.allows(Axis::kCompiled, tune.compiled ? 1 : 0) &&
          allowed.allows(tune_axes::kOptimizerInBackward, tune.optimizer_in_backward ? 1 : 0) &&
          allowed.allows(tune_axes::kOffloadActivations, tune.offload_activations ? 1 : 0);
      if (asked && ir::check_plan(question.model, with)) {
        all.push_back(std::move(with));
      }
    }
  }
  return all;
}

/// Bounds of the recipes. What goes to the host is not kept on the device, so that only parameters
/// and states are certain.
class TuneBounds final : public AloneBounds {
 public:
  explicit TuneBounds(const SearchInputs& inputs)
      : AloneBounds(inputs.question.space.model, inputs.device, inputs.question.machine,
                    inputs.records.of<AloneBounds::Samples>()),
        model_(inputs.question.space.model) {}

  [[nodiscard]] Bytes floor(const ParallelPlan& plan) override {
    return tune_of(plan).offload_activations
               ? cost::memory_floor(model_, plan, cost::HeldAt::kForward)
               : AloneBounds::floor(plan);
  }

 private:
  const ir::ModelSpec& model_;
};

class TuneSearch final : public FrameworkSearch {
 public:
  TuneSearch() : FrameworkSearch("torchtune") {}

  [[nodiscard]] bool only_if_named() const override { return false; }

  [[nodiscard]] std::span<const SearchAxis> axes() const override {
    static const std::vector<SearchAxis> rows = tune_rows();
    return rows;
  }

  [[nodiscard]] bool begin(SpaceWalk& walk) const override {
    if (!FrameworkSearch::begin(walk)) {
      return false;
    }
    if (has_fsdp(walk.plan) && walk.plan.precision == ir::Precision::kFp32) {
      edit_fsdp(walk.plan).param_dtype = ir::DType::kFp32;
    }
    ir::runtime_of(walk.plan).complete(walk.plan);
    return true;
  }

  [[nodiscard]] std::uint64_t choose_first(SpaceWalk& walk) const override {
    std::vector<ParallelPlan> all = plans_of(walk.question, walk.plan);
    if (!all.empty()) {
      walk.plan = std::move(all.front());
    }
    return all.size();
  }

  [[nodiscard]] std::unique_ptr<const Choices> choices(const SpaceQuestion& question,
                                                       const Cell& cell) const override {
    return std::make_unique<ListedChoices>(plans_of(question, cell.plan));
  }

  [[nodiscard]] std::unique_ptr<PlanBounds> bounds(const SearchInputs& inputs) const override {
    return std::make_unique<TuneBounds>(inputs);
  }

  [[nodiscard]] AxisValues values_of(const SpaceQuestion& question, const Cell& cell,
                                     Axis axis) const override {
    return listed_values(question, cell, axis);
  }

 private:
  [[nodiscard]] std::vector<ParallelPlan> plans_of(const SpaceQuestion& question,
                                                   const ParallelPlan& plan) const {
    return with_switches(question, whole_recomputations(*this, question, plan));
  }
};

}  // namespace

const FrameworkSearch& torchtune_search() {
  static const TuneSearch search;
  return search;
}

}  // namespace headroom::plan
