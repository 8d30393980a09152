#include "planner/explain/explain.h"

#include <utility>

#include "planner/explain/held.h"
#include "planner/search/evaluator.h"
#include "planner/space/all_axes.h"
#include "planner/space/refusal.h"

namespace headroom::plan {
namespace {

/// Number of cells into which a search for an explanation looks.
constexpr std::uint64_t kExplainLimit = 48;

Result<std::optional<cost::StepEstimate>> replayed(const SearchQuestion& question,
                                                   const RatedPlan& plan, Bytes budget) {
  Result<cost::StepEstimate> estimate = judged_replay(question, plan.plan, budget);
  if (!estimate) {
    return std::move(estimate).error();
  }
  return std::optional(std::move(estimate).value());
}

}  // namespace

Result<WhyNot> why_not(const SearchQuestion& question, const PlanResult& found, Axis axis,
                       std::int64_t value, SearchRecords& records) {
  WhyNot why;
  why.axis = axis;
  why.value = value;
  if (found.best &&
      value_of(found.best->plan, axis) == search_of(found.best->plan).read(axis, value)) {
    return why;
  }
  const SearchQuestion with = held(question, axis, {value});
  if (!has_plans(with.space)) {
    why.kind = WhyNot::Kind::kNotInSpace;
    const Error refusal = refusal_of(with.space);
    const std::size_t lacks = refusal.got.find("cannot have ");
    if (refusal.wanted.empty()) {
      why.refusal = lacks == std::string::npos ? "--" + refusal.key + " " + refusal.got
                                               : refusal.got.substr(lacks);
    } else {
      why.refusal = "got " + refusal.got + ", expected " + refusal.wanted +
                    (refusal.fix.empty() ? "" : "; " + refusal.fix);
    }
    return why;
  }
  Result<PlanResult> other = search(with, records);
  if (!other) {
    return std::move(other).error();
  }
  if (other->best) {
    why.kind = WhyNot::Kind::kSlower;
    why.seconds_lost = found.best ? (other->step() - found.step()).value() : 0;
    why.plan = other->best;
    why.replay = std::move(other->estimate);
    return why;
  }
  why.kind =
      other->status == PlanStatus::kInfeasible ? WhyNot::Kind::kTooLarge : WhyNot::Kind::kUnknown;
  if (!other->leanest) {
    SearchQuestion lean = with;
    lean.objective = Objective::kMemory;
    lean.budget = kNoLimit;
    lean.work_limit = kExplainLimit;
    const Result<PlanResult> least = search(lean, records);
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
  const std::vector<const FrameworkSearch*> frameworks = framework_searches();
  for (std::size_t i = 0; i < frameworks.size(); ++i) {
    if (!frameworks[i]->only_if_named() && frameworks[i]->runtime() != plan.runtime) {
      all.push_back({Axis::kRuntime, static_cast<std::int64_t>(i)});
    }
  }
  for (const Alternative& one : search_of(plan).alternatives(plan)) {
    all.push_back(one);
  }
  return all;
}

}  // namespace headroom::plan
