#include "planner/explain/mend_search.h"

#include <utility>

#include "planner/explain/held.h"
#include "planner/search/evaluator.h"

namespace headroom::plan {
namespace {

/// Events after which a search ends. Two cores lower and replay some five million events in a
/// second.
/// Source: tests/bench/results/infeasible_epyc-2vcpu_2026-11-30.md.
constexpr std::uint64_t kEffort = 4'000'000;

}  // namespace

bool is_stopped(const SearchQuestion& question) {
  return question.stop.asked();
}

Result<std::optional<PlanResult>> asked(const SearchQuestion& question, SearchRecords& records) {
  if (!has_plans(question.space)) {
    return std::optional<PlanResult>();
  }
  SearchQuestion limited = question;
  limited.effort = kEffort;
  Result<PlanResult> found = search(limited, records);
  if (!found) {
    // A value that every framework refuses is a space without a plan.
    return is_refusal(found.error())
               ? Result<std::optional<PlanResult>>(std::optional<PlanResult>())
               : std::move(found).error();
  }
  return std::optional(std::move(found).value());
}

Result<std::optional<PlanResult>> any_of(const SearchQuestion& question, SearchRecords& records) {
  SearchQuestion any = quiet(question);
  any.objective = Objective::kMemory;
  any.any = true;
  return asked(any, records);
}

bool is_open(const std::optional<PlanResult>& found) {
  return found && !found->best && found->status != PlanStatus::kInfeasible;
}

void take_plan(const PlanResult& found, Mend& mend) {
  mend.plan = *found.best;
  mend.verdict = found.estimate->verdict;
  mend.chance = found.estimate->chance;
}

MaybeMend with_better(Mend mend, const SearchQuestion& question, SearchRecords& records) {
  const Result<std::optional<PlanResult>> best = asked(question, records);
  if (!best) {
    return best.error();
  }
  const auto worth = [&question](const RatedPlan& plan) {
    return worth_of(question, plan.plan, plan.time.total().value(), plan.peak);
  };
  if (*best && (*best)->best && worth(*(*best)->best) < worth(mend.plan)) {
    take_plan(**best, mend);
  }
  return std::optional(std::move(mend));
}

MaybeMend with_best(Mend mend, const SearchQuestion& question, SearchRecords& records, bool& open) {
  const Result<std::optional<PlanResult>> any = any_of(question, records);
  if (!any) {
    return any.error();
  }
  open = open || is_open(*any);
  if (!*any || !(*any)->best) {
    return std::optional<Mend>();
  }
  take_plan(**any, mend);
  return with_better(std::move(mend), question, records);
}

Mend mend_to(Mend::Kind kind, std::int64_t value) {
  Mend mend;
  mend.kind = kind;
  mend.value = value;
  return mend;
}

}  // namespace headroom::plan
