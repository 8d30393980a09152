#include "costmodel/speedups.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "costmodel/remedy.h"
#include "runtimes/registry.h"

namespace headroom::cost {
namespace {

using ir::Change;
using ir::ParallelPlan;

constexpr std::array<Bottleneck, 6> kBottlenecks = {
    Bottleneck::kCommunication, Bottleneck::kSmallBatch,    Bottleneck::kBubble,
    Bottleneck::kOffload,       Bottleneck::kRecomputation, Bottleneck::kKernels};

/// Changes that put faster kernels in the place of others.
constexpr std::array<Change, 4> kFasterKernels = {Change::kMixedPrecision, Change::kSdpaAttention,
                                                  Change::kFusedOptimizer, Change::kFusedKernels};

/// Two, four and more times as many sequences at once, in fewer micro-batches if there are several.
std::vector<ParallelPlan> with_larger_batches(const ParallelPlan& plan) {
  constexpr std::int64_t kMostTimes = 16;
  std::vector<ParallelPlan> all;
  ParallelPlan larger = plan;
  for (std::int64_t times = 2; times <= kMostTimes; times *= 2) {
    larger.workload.micro_batch *= 2;
    if (larger.workload.accumulation % 2 == 0) {
      larger.workload.accumulation /= 2;
    } else if (plan.workload.accumulation > 1) {
      break;  // The tokens of a step would change.
    }
    all.push_back(larger);
  }
  return all;
}

/// The same with no layer recomputed, or fewer of them. A framework that cannot choose layers
/// refuses the latter.
std::vector<ParallelPlan> with_less_recomputation(const ParallelPlan& plan) {
  if (plan.recompute == ir::Recompute::kNone) {
    return {};
  }
  std::vector<ParallelPlan> all(1, plan);
  all.front().recompute = ir::Recompute::kNone;
  all.front().recompute_every = 1;
  all.front().recompute_first = 0;
  for (const std::int64_t every : {4, 2}) {
    if (plan.recompute == ir::Recompute::kFull && plan.recompute_first == 0 &&
        plan.recompute_every < every) {
      all.push_back(plan);
      all.back().recompute_every = every;
    }
  }
  return all;
}

/// The parts of a step that make up a bottleneck.
std::span<const StepPart> parts_of(Bottleneck bottleneck) {
  static constexpr std::array<StepPart, 4> kCommunication = {StepPart::kTensor, StepPart::kContext,
                                                             StepPart::kExpert, StepPart::kData};
  static constexpr std::array<StepPart, 1> kHost = {StepPart::kHost};
  static constexpr std::array<StepPart, 2> kPipeline = {StepPart::kBubble, StepPart::kPipeline};
  static constexpr std::array<StepPart, 1> kOffload = {StepPart::kOffload};
  static constexpr std::array<StepPart, 1> kRecompute = {StepPart::kRecompute};
  static constexpr std::array<StepPart, 3> kReplaced = {
      StepPart::kAttention, StepPart::kMemoryBound, StepPart::kOptimizer};
  switch (bottleneck) {
    case Bottleneck::kCommunication:
      return kCommunication;
    case Bottleneck::kSmallBatch:
      return kHost;
    case Bottleneck::kBubble:
      return kPipeline;
    case Bottleneck::kOffload:
      return kOffload;
    case Bottleneck::kRecomputation:
      return kRecompute;
    case Bottleneck::kKernels:
      return kReplaced;
  }
  return {};
}

std::optional<Speedup> replay_change(const SpeedupQuestion& question, const StepTime& before,
                                     const ParallelPlan& plan) {
  Result<StepEstimate> after =
      estimate(question.model, plan, question.device, question.budget, &question.machine);
  if (after && question.judge) {
    question.judge(plan, after.value());
  }
  if (!after || !after->time || !is_yes(after->verdict, after->chance)) {
    return std::nullopt;
  }
  Speedup found;
  found.plan = plan;
  found.gain = after->time->tokens_per_second_per_gpu() / before.tokens_per_second_per_gpu() - 1;
  found.verdict = after->verdict;
  found.margin = after->margin;
  return found.gain >= kLeastGain ? std::optional(found) : std::nullopt;
}

/// The best of the framework's own changes, and of the larger micro-batches, which always gain
/// something.
struct BestChanges {
  std::optional<Speedup> own;
  std::optional<Speedup> larger;

  void consider(const SpeedupQuestion& question, const StepTime& before, const ParallelPlan& plan) {
    std::optional<Speedup> one = replay_change(question, before, plan);
    std::optional<Speedup>& best =
        plan.workload.micro_batch > question.plan.workload.micro_batch ? larger : own;
    if (one && (!best || one->gain > best->gain)) {
      best = std::move(one);
    }
  }
};

BestChanges with_faster_kernels(const SpeedupQuestion& question, const StepTime& before) {
  BestChanges best;
  for (const Change change : kFasterKernels) {
    const ParallelPlan& base = best.own ? best.own->plan : question.plan;
    const std::optional<ParallelPlan> changed = with_change(base, change, question.device);
    if (!changed || *changed == base) {
      continue;
    }
    std::optional<Speedup> one = replay_change(question, before, *changed);
    if (one && one->gain >= (best.own ? best.own->gain : 0) + kLeastGain) {
      best.own = std::move(one);
    }
  }
  if (best.own) {
    for (const ParallelPlan& plan : with_larger_batches(best.own->plan)) {
      best.consider(question, before, plan);
    }
  }
  if (best.larger && best.larger->gain < best.own->gain + kLeastGain) {
    best.larger.reset();
  }
  return best;
}

}  // namespace

double share_of(const StepTime& step, Bottleneck bottleneck) {
  Seconds sum;
  for (const StepPart part : parts_of(bottleneck)) {
    sum += step.parts.of(part);
  }
  return sum / step.total;
}

std::vector<ParallelPlan> changes_against(const ParallelPlan& plan, Bottleneck bottleneck,
                                          std::int64_t layers) {
  std::vector<ParallelPlan> out = ir::runtime_of(plan).plans_against(bottleneck, plan, layers);
  const std::vector<ParallelPlan> larger = with_larger_batches(plan);
  switch (bottleneck) {
    case Bottleneck::kCommunication:
    case Bottleneck::kSmallBatch:
      out.insert(out.begin(), larger.begin(), larger.end());
      break;
    case Bottleneck::kBubble:
    case Bottleneck::kKernels:
      break;
    case Bottleneck::kRecomputation: {
      const std::vector<ParallelPlan> less = with_less_recomputation(plan);
      out.insert(out.end(), less.begin(), less.end());
      break;
    }
    case Bottleneck::kOffload:
      out.insert(out.end(), larger.begin(), larger.end());
      break;
  }
  return out;
}

std::vector<Speedup> find_speedups(const SpeedupQuestion& question, const StepEstimate& found) {
  HEADROOM_ASSERT(found.time.has_value());
  const auto layers = static_cast<std::int64_t>(question.model.layers.size());
  std::vector<Speedup> speedups;
  for (const Bottleneck bottleneck : kBottlenecks) {
    const double share = share_of(*found.time, bottleneck);
    if (share < kBottleneckShare) {
      continue;
    }
    BestChanges best_changes;
    if (bottleneck == Bottleneck::kKernels) {
      best_changes = with_faster_kernels(question, *found.time);
    }
    for (const ParallelPlan& plan : changes_against(question.plan, bottleneck, layers)) {
      best_changes.consider(question, *found.time, plan);
    }
    for (std::optional<Speedup>* best : {&best_changes.own, &best_changes.larger}) {
      const auto is_named = [&](const Speedup& speedup) { return speedup.plan == (*best)->plan; };
      if (*best && std::ranges::none_of(speedups, is_named)) {
        (*best)->bottleneck = bottleneck;
        (*best)->share = share;
        speedups.push_back(**best);
      }
    }
  }
  return speedups;
}

}  // namespace headroom::cost
