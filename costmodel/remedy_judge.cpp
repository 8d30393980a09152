#include "costmodel/remedy_judge.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "costmodel/expert_load.h"
#include "costmodel/layer_bound.h"
#include "costmodel/memory_floor.h"
#include "costmodel/routed_estimate.h"
#include "runtimes/plan_check.h"

namespace headroom::cost {
namespace {

using ir::ParallelPlan;

/// Matrix FLOPs of the replayed program per token that it processes.
double flops_per_token(const ir::RankProgram& program, const ParallelPlan& plan) {
  double flops = 0;
  for (const ir::Phase& phase : program.phases) {
    flops += phase.work.gemm_flops;
  }
  const std::int64_t micro_batches = plan.workload.steps * replayed_micro_batches(plan);
  const auto tokens =
      static_cast<double>(micro_batches * plan.workload.micro_batch * plan.workload.sequence);
  return flops / tokens;
}

double flops_ratio(const StepEstimate& before, const ParallelPlan& plan_before,
                   const StepEstimate& after, const ParallelPlan& plan_after) {
  const double flops = flops_per_token(before.program, plan_before);
  return flops > 0 ? flops_per_token(after.program, plan_after) / flops : 1.0;
}

double time_ratio(const StepEstimate& before, const StepEstimate& after) {
  if (!before.time || !after.time) {
    return 0;
  }
  return before.time->tokens_per_second_per_gpu() / after.time->tokens_per_second_per_gpu();
}

}  // namespace

Deadline deadline_after(Deadline begin, Seconds limit, double share) {
  const std::chrono::duration<double> time(share * limit.value());
  return begin + std::chrono::duration_cast<Deadline::duration>(time);
}

void take_result(const StepEstimate& replayed, Remedy& remedy) {
  remedy.verdict = replayed.verdict;
  remedy.peak_allocated = replayed.peak_allocated;
  remedy.peak_reserved = replayed.peak_reserved;
  remedy.margin = replayed.margin;
  remedy.chance = replayed.chance;
  remedy.host = replayed.host;
}

RemedyJudge::RemedyJudge(const RemedyQuestion& question, const StepEstimate& found,
                         Deadline deadline)
    : question_(question), found_(found), deadline_(deadline) {}

bool RemedyJudge::mends(const Remedy& remedy) const {
  const bool tight_is_enough = !comfort_ && !is_yes(found_.verdict, found_.chance);
  return remedy.verdict == Verdict::kFits ||
         (tight_is_enough && is_yes(remedy.verdict, remedy.chance));
}

std::optional<ParallelPlan> RemedyJudge::changed(const std::vector<Change>& changes) const {
  ParallelPlan plan = question_.plan;
  for (const Change& change : changes) {
    std::optional<ParallelPlan> next = with_change(plan, change, question_.device);
    if (!next) {
      return std::nullopt;
    }
    plan = std::move(*next);
  }
  return ir::check_plan(question_.model, plan) ? std::optional(plan) : std::nullopt;
}

std::optional<Remedy> RemedyJudge::judge(const std::vector<Change>& changes, Bounds bounds) {
  std::optional<ParallelPlan> plan = changed(changes);
  if (!plan || std::ranges::find(refused_, *plan) != refused_.end()) {
    return std::nullopt;
  }
  if (std::optional<Remedy> known = recall(*plan, bounds)) {
    known->changes = changes;
    return known;
  }
  Remedy remedy;
  remedy.changes = changes;
  remedy.plan = std::move(*plan);
  if (const Bytes floor = memory_floor(question_.model, remedy.plan); floor > found_.capacity) {
    bound_by(floor, remedy);
    remedy.ruled_out = true;
  } else if (const std::optional<Bytes> bound =
                 bounds == Bounds::kAllowed ? hopeless(remedy.plan) : std::nullopt) {
    bound_by(*bound, remedy);
    remedy.estimated = true;
  } else if (out_of_time()) {
    return std::nullopt;
  } else if (!replay(remedy)) {
    refused_.push_back(remedy.plan);
    return std::nullopt;
  }
  std::erase_if(known_, [&](const Remedy& known) { return known.plan == remedy.plan; });
  known_.push_back(remedy);
  return remedy;
}

void RemedyJudge::make_exact(Remedy& remedy) {
  if (remedy.estimated && replay(remedy)) {
    remedy.estimated = false;
  }
}

std::optional<Remedy> RemedyJudge::recall(const ParallelPlan& plan, Bounds bounds) const {
  const auto known = std::ranges::find(known_, plan, &Remedy::plan);
  const bool usable = known != known_.end() && (bounds == Bounds::kAllowed || !known->estimated);
  return usable ? std::optional(*known) : std::nullopt;
}

void RemedyJudge::bound_by(Bytes least, Remedy& remedy) const {
  remedy.verdict = Verdict::kDoesNotFit;
  remedy.peak_allocated = least;
  remedy.peak_reserved = least;
  remedy.margin = found_.capacity - least;
  remedy.saved = found_.peak_reserved - least;
}

/// A bound that shows that the plan cannot fit.
std::optional<Bytes> RemedyJudge::hopeless(const ParallelPlan& plan) const {
  const std::optional<Bytes> bound = layer_bound(question_.model, plan, question_.device);
  const double share = found_.verdict == Verdict::kDoesNotFit || question_.judge ? 0 : kTightShare;
  const double room = static_cast<double>(found_.capacity.value()) -
                      share * static_cast<double>(found_.device_total.value());
  return bound && static_cast<double>(bound->value()) > room ? bound : std::nullopt;
}

/// False if the runtime refuses the plan.
bool RemedyJudge::replay(Remedy& remedy) {
  const Result<StepEstimate> result = replay_of(remedy.plan);
  if (!result) {
    return false;
  }
  ++replays_;
  take_result(*result, remedy);
  remedy.saved = found_.peak_reserved - result->peak_reserved;
  remedy.flops_ratio = flops_ratio(found_, question_.plan, *result, remedy.plan);
  remedy.time_ratio = time_ratio(found_, *result);
  return true;
}

Result<StepEstimate> RemedyJudge::replay_of(const ParallelPlan& plan) const {
  Result<StepEstimate> found = bare_replay_of(plan);
  if (found && question_.judge) {
    question_.judge(plan, found.value());
  }
  return found;
}

/// The replay with its own verdict.
Result<StepEstimate> RemedyJudge::bare_replay_of(const ParallelPlan& plan) const {
  ParallelPlan other = question_.plan;
  other.allocator = plan.allocator;
  if (other == plan) {  // The same program with other allocator settings.
    StepEstimate same =
        cost::judge(found_.program, plan.allocator, found_.device_total, found_.outside);
    judge_host(same, found_.host);
    same.time = found_.time;
    return same;
  }
  return replayed(question_, plan);
}

Result<StepEstimate> replayed(const RemedyQuestion& question, const ParallelPlan& plan) {
  const ParallelPlan even = question.load == 1 ? plan : with_load(plan, 1);
  return estimate_with_load(question.model, even, question.load, question.device, question.budget,
                            question.machine);
}

double slowdown_of(const Remedy& remedy) {
  if (remedy.time_ratio > 0) {
    return std::max(1.0, remedy.time_ratio);
  }
  constexpr double kPricePerStep = 100;  // Prices grow by hundreds from kind to kind.
  const auto dearest = std::ranges::max_element(remedy.changes);
  return dearest == remedy.changes.end() ? 1 : 1 + dearest->price / kPricePerStep;
}

bool trains_otherwise(const Remedy& remedy) {
  return std::ranges::any_of(
      remedy.changes, [](const Change& change) { return change.kind == Change::Kind::kTraining; });
}

bool is_cheaper(const Remedy& remedy, const Remedy& other) {
  const auto rank = [](const Remedy& one) {
    const auto dearest = std::ranges::max_element(one.changes);
    // Slowdowns are compared in hundredths, so that rounding of equal times decides nothing.
    return std::tuple{trains_otherwise(one), std::llround(100 * slowdown_of(one)),
                      dearest == one.changes.end() ? 0 : dearest->price, one.changes.size()};
  };
  return rank(remedy) < rank(other);
}

}  // namespace headroom::cost
