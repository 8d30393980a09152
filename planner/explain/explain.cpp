#include "planner/explain/explain.h"

#include <utility>

#include "planner/explain/held.h"
#include "planner/space/axis_value.h"
#include "planner/space/refusal.h"

namespace headroom::plan {
namespace {

/// Cells that a search for an explanation looks into.
constexpr std::uint64_t kExplainLimit = 48;

Result<std::optional<cost::StepEstimate>> replayed(const SearchQuestion& question,
                                                   const RatedPlan& plan, Bytes budget) {
  Result<cost::StepEstimate> estimate =
      cost::estimate(question.space.model, plan.plan, question.device, budget);
  if (!estimate) {
    return std::move(estimate).error();
  }
  return std::optional(std::move(estimate).value());
}

}  // namespace

Result<WhyNot> why_not(const SearchQuestion& question, const PlanResult& found, Axis axis,
                       std::int64_t value, PlanMemory& memory) {
  WhyNot why;
  why.axis = axis;
  why.value = value;
  if (found.best && value_of(found.best->plan, axis) == canonical(axis, value)) {
    return why;
  }
  const SearchQuestion with = held(question, axis, {value});
  if (cells_of(with.space).empty()) {
    why.kind = WhyNot::Kind::kNotInSpace;
    const Error refusal = refusal_of(with.space);
    why.refusal = "got " + refusal.got + ", expected " + refusal.wanted +
                  (refusal.fix.empty() ? "" : "; " + refusal.fix);
    return why;
  }
  Result<PlanResult> other = search(with, memory);
  if (!other) {
    return std::move(other).error();
  }
  if (other->best) {
    why.kind = WhyNot::Kind::kSlower;
    why.plan = other->best;
    why.replay = std::move(other->estimate);
    why.seconds_lost =
        found.best ? other->best->time.total().value() - found.best->time.total().value() : 0;
    return why;
  }
  why.kind =
      other->status == PlanStatus::kInfeasible ? WhyNot::Kind::kTooLarge : WhyNot::Kind::kUnknown;
  if (!other->leanest) {
    SearchQuestion lean = with;
    lean.objective = Objective::kMemory;
    lean.budget = kNoLimit;
    lean.work_limit = kExplainLimit;
    const Result<PlanResult> least = search(lean, memory);
    other->leanest = least ? least->best : std::nullopt;
  }
  if (other->leanest) {
    why.plan = other->leanest;
    Result<std::optional<cost::StepEstimate>> replay =
        replayed(question, *other->leanest, question.budget);
    if (!replay) {
      return std::move(replay).error();
    }
    why.replay = std::move(replay).value();
  }
  return why;
}

std::vector<Alternative> alternatives_of(const ir::ParallelPlan& plan) {
  std::vector<Alternative> all;
  for (std::int64_t runtime = 0; runtime < kTitanRuntime; ++runtime) {
    if (runtime != value_of(plan, Axis::kRuntime)) {
      all.push_back({Axis::kRuntime, runtime});
    }
  }
  std::vector<Axis> degrees = {Axis::kMicroBatch};
  if (plan.megatron || plan.titan) {
    degrees = {Axis::kTensor, Axis::kPipeline, Axis::kContext, Axis::kMicroBatch};
  }
  for (const Axis axis : degrees) {
    const std::int64_t value = value_of(plan, axis);
    if (value > 1) {
      all.push_back({axis, value / 2});
    }
    all.push_back({axis, value * 2});
  }
  if (plan.titan) {
    all.push_back({Axis::kCompiled, plan.titan->compiled ? 0 : 1});
    all.push_back({Axis::kReshard, 1 - value_of(plan, Axis::kReshard)});
  }
  if (plan.megatron && plan.megatron->pipeline > 1) {
    all.push_back({Axis::kMeshOrder, plan.megatron->pipeline_before_data ? 0 : 1});
  }
  if (plan.megatron && plan.megatron->distributed_optimizer &&
      plan.precision == ir::Precision::kBf16Master) {
    const std::int64_t step = value_of(plan, Axis::kOptimizerOffload);
    all.push_back({Axis::kOptimizerOffload, step > 0 ? step - 1 : 1});
  }
  return all;
}

}  // namespace headroom::plan
