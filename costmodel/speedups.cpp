#include "costmodel/speedups.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "runtimes/registry.h"

namespace headroom::cost {
namespace {

using ir::ParallelPlan;

constexpr std::array<Bottleneck, 5> kBottlenecks = {
    Bottleneck::kCommunication, Bottleneck::kSmallBatch, Bottleneck::kBubble, Bottleneck::kOffload,
    Bottleneck::kRecomputation};

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
  return found.gain > 0 ? std::optional(found) : std::nullopt;
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
    std::optional<Speedup> own;     // The best of the framework's own changes,
    std::optional<Speedup> larger;  // and of the larger micro-batches, which always gain something.
    for (const ParallelPlan& plan : changes_against(question.plan, bottleneck, layers)) {
      std::optional<Speedup> one = replay_change(question, *found.time, plan);
      std::optional<Speedup>& best =
          plan.workload.micro_batch > question.plan.workload.micro_batch ? larger : own;
      if (one && (!best || one->gain > best->gain)) {
        best = std::move(one);
      }
    }
    for (std::optional<Speedup>* best : {&own, &larger}) {
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
