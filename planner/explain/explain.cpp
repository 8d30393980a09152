#include "planner/explain/explain.h"

#include <algorithm>
#include <array>
#include <utility>

namespace headroom::plan {
namespace {

/// Cells that a search for an explanation looks into.
constexpr std::uint64_t kExplainLimit = 48;
constexpr std::int64_t kMostDoublings = 8;

std::int64_t value_of(const ir::ParallelPlan& plan, Axis axis) {
  const ir::MegatronPlan megatron = plan.megatron.value_or(ir::MegatronPlan{});
  switch (axis) {
    case Axis::kRuntime:
      return static_cast<std::int64_t>(plan.runtime);
    case Axis::kTensor:
      return megatron.tensor;
    case Axis::kPipeline:
      return megatron.pipeline;
    case Axis::kContext:
      return megatron.context;
    case Axis::kExpert:
      return megatron.expert;
    case Axis::kMicroBatch:
      return plan.micro_batch;
    case Axis::kSequenceParallel:
      return megatron.sequence_parallel ? 1 : 0;
    default:
      return -1;  // Asked of the axes above only.
  }
}

SearchQuestion held(const SearchQuestion& question, Axis axis, AxisValues values) {
  SearchQuestion asked = question;
  asked.space.constraints.of(axis) = std::move(values);
  asked.front = false;
  asked.progress = {};
  return asked;
}

Result<std::optional<cost::StepEstimate>> replayed(const SearchQuestion& question,
                                                   const RatedPlan& plan, Bytes budget) {
  Result<cost::StepEstimate> estimate =
      cost::estimate(question.space.model, plan.plan, question.device, budget);
  if (!estimate) {
    return std::move(estimate).error();
  }
  return std::optional(std::move(estimate).value());
}

/// The search's answer; nothing for an empty space.
Result<std::optional<PlanResult>> asked(const SearchQuestion& question, PlanMemory& memory) {
  if (cells_of(question.space).empty()) {
    return std::optional<PlanResult>();
  }
  Result<PlanResult> found = search(question, memory);
  if (!found) {
    return std::move(found).error();
  }
  return std::optional(std::move(found).value());
}

std::optional<Mend> mend_of(Mend::Kind kind, std::int64_t value,
                            const std::optional<PlanResult>& found) {
  if (!found || !found->best) {
    return std::nullopt;
  }
  return Mend{.kind = kind,
              .axis = Axis::kGpus,
              .value = value,
              .plan = *found->best,
              .verdict = found->estimate->verdict};
}

/// Looks for the least number of GPUs that some plan fits on.
Result<std::optional<Mend>> more_gpus(const SearchQuestion& question, PlanMemory& memory) {
  const AxisValues& given = question.space.constraints.of(Axis::kGpus);
  const std::int64_t first = given.empty() ? question.space.base.world : given.back();
  const std::int64_t node = question.machine.topology.devices_per_node;
  const auto at = [&](std::int64_t gpus) -> Result<std::optional<Mend>> {
    SearchQuestion more = held(question, Axis::kGpus, {gpus});
    // The batch of a step stays, unless it does not spread over so many.
    more.space.global_batch = std::max(question.space.global_batch, gpus);
    const Result<std::optional<PlanResult>> found = asked(more, memory);
    return found ? Result<std::optional<Mend>>(mend_of(Mend::Kind::kGpus, gpus, *found))
                 : Result<std::optional<Mend>>(found.error());
  };
  std::int64_t below = first;
  for (std::int64_t doubling = 0; doubling < kMostDoublings; ++doubling) {
    Result<std::optional<Mend>> mend = at(2 * below);
    if (!mend || !*mend) {
      below *= 2;
      if (!mend) {
        return mend;
      }
      continue;
    }
    std::optional<Mend> least = *mend;
    const std::int64_t step = std::max<std::int64_t>(below >= node ? node : 1, below / 8);
    for (std::int64_t gpus = below + step; gpus < 2 * below; gpus += step) {
      Result<std::optional<Mend>> fewer = at(gpus);
      if (fewer && *fewer) {
        return fewer;
      }
    }
    return least;
  }
  return std::optional<Mend>();
}

Result<std::optional<Mend>> shorter(const SearchQuestion& question, PlanMemory& memory) {
  constexpr std::int64_t kShortest = 128;
  for (std::int64_t length = question.space.base.sequence / 2; length >= kShortest; length /= 2) {
    const Result<std::optional<PlanResult>> found =
        asked(held(question, Axis::kSequence, {length}), memory);
    if (!found) {
      return found.error();
    }
    if (std::optional<Mend> mend = mend_of(Mend::Kind::kSequence, length, *found)) {
      return mend;
    }
  }
  return std::optional<Mend>();
}

}  // namespace

Result<WhyNot> why_not(const SearchQuestion& question, const PlanResult& found, Axis axis,
                       std::int64_t value, PlanMemory& memory) {
  WhyNot why;
  why.axis = axis;
  why.value = value;
  if (found.best && value_of(found.best->plan, axis) == value) {
    return why;
  }
  const SearchQuestion with = held(question, axis, {value});
  if (cells_of(with.space).empty()) {
    why.kind = WhyNot::Kind::kNotInSpace;
    const Result<PlanResult> refused = search(with, memory);
    why.refusal = refused ? "" : refused.error().got;
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
    lean.budget = Bytes{std::int64_t{1} << 50};
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
  for (std::int64_t runtime = 0; runtime < 4; ++runtime) {
    if (runtime != static_cast<std::int64_t>(plan.runtime)) {
      all.push_back({Axis::kRuntime, runtime});
    }
  }
  std::vector<Axis> degrees = {Axis::kMicroBatch};
  if (plan.megatron) {
    degrees = {Axis::kTensor, Axis::kPipeline, Axis::kContext, Axis::kMicroBatch};
  }
  for (const Axis axis : degrees) {
    const std::int64_t value = value_of(plan, axis);
    if (value > 1) {
      all.push_back({axis, value / 2});
    }
    all.push_back({axis, value * 2});
  }
  return all;
}

Result<Infeasibility> explain_infeasible(const SearchQuestion& question, PlanMemory& memory) {
  Infeasibility why;
  SearchQuestion lean = question;
  lean.objective = Objective::kMemory;
  lean.budget = Bytes{std::int64_t{1} << 50};
  lean.work_limit = kExplainLimit;
  lean.progress = {};
  Result<PlanResult> least = search(lean, memory);
  if (!least) {
    return std::move(least).error();
  }
  if (least->best) {
    why.leanest = least->best;
    why.proven = least->status == PlanStatus::kOptimal;
    const cost::StepEstimate& estimate = *least->estimate;
    const Bytes wanted = estimate.peak_reserved + estimate.outside_bytes;
    const Result<std::optional<cost::StepEstimate>> check =
        replayed(question, *least->best, wanted);
    if (check && (*check)->verdict != cost::Verdict::kDoesNotFit) {
      why.mends.push_back({.kind = Mend::Kind::kBudget,
                           .value = wanted.value(),
                           .plan = *least->best,
                           .verdict = (*check)->verdict});
    }
  }
  for (const auto& change : {more_gpus, shorter}) {
    Result<std::optional<Mend>> mend = change(question, memory);
    if (!mend) {
      return std::move(mend).error();
    }
    if (*mend) {
      why.mends.push_back(**mend);
    }
  }
  for (const AxisName& name : axis_names()) {
    const bool fixed = name.axis == Axis::kGpus || name.axis == Axis::kSequence ||
                       question.space.constraints.of(name.axis).empty();
    if (fixed) {
      continue;
    }
    const Result<std::optional<PlanResult>> found = asked(held(question, name.axis, {}), memory);
    if (!found) {
      return found.error();
    }
    if (std::optional<Mend> mend = mend_of(Mend::Kind::kFreedAxis, 0, *found)) {
      mend->axis = name.axis;
      why.mends.push_back(*mend);
    }
  }
  return why;
}

}  // namespace headroom::plan
