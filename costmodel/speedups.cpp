#include "costmodel/speedups.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

namespace headroom::cost {
namespace {

using ir::ParallelPlan;

constexpr std::array<Bottleneck, 4> kBottlenecks = {
    Bottleneck::kCommunication, Bottleneck::kSmallBatch, Bottleneck::kBubble, Bottleneck::kOffload};

/// Twice as many sequences at once, in half as many micro-batches where there are several.
void add_larger_batch(const ParallelPlan& plan, std::vector<ParallelPlan>& out) {
  ParallelPlan larger = plan;
  larger.micro_batch *= 2;
  if (plan.accumulation % 2 == 0) {
    larger.accumulation /= 2;
  }
  out.push_back(larger);
}

void add_smaller_batch(const ParallelPlan& plan, std::vector<ParallelPlan>& out) {
  if (plan.micro_batch % 2 == 0) {
    ParallelPlan smaller = plan;
    smaller.micro_batch /= 2;
    smaller.accumulation *= 2;
    out.push_back(smaller);
  }
}

void add_less_communication(const ParallelPlan& plan, std::vector<ParallelPlan>& out) {
  add_larger_batch(plan, out);
  if (plan.zero && plan.zero->stage > 1) {
    ParallelPlan less = plan;
    less.zero->stage -= 1;
    out.push_back(less);
  }
  if (plan.fsdp && plan.fsdp->reshard_after_forward) {
    ParallelPlan kept = plan;
    kept.fsdp->reshard_after_forward = false;
    out.push_back(kept);
  }
  if (!plan.megatron) {
    return;
  }
  if (!plan.megatron->overlap_grad_reduce && plan.megatron->distributed_optimizer) {
    ParallelPlan overlapped = plan;
    overlapped.megatron->overlap_grad_reduce = true;
    overlapped.megatron->overlap_param_gather = true;
    out.push_back(overlapped);
  }
  if (plan.megatron->tensor % 2 == 0 && plan.accumulation % 2 == 0) {
    ParallelPlan narrower = plan;
    narrower.megatron->tensor /= 2;
    narrower.megatron->sequence_parallel =
        plan.megatron->sequence_parallel && narrower.megatron->tensor > 1;
    narrower.accumulation /= 2;
    out.push_back(narrower);
  }
}

void add_smaller_bubble(const ParallelPlan& plan, std::int64_t layers,
                        std::vector<ParallelPlan>& out) {
  if (!plan.megatron || plan.megatron->pipeline == 1 || !plan.megatron->pipeline_layout.empty()) {
    return;
  }
  const std::int64_t own = layers / plan.megatron->pipeline;
  const std::int64_t chunk =
      plan.megatron->layers_per_chunk > 0 ? plan.megatron->layers_per_chunk : own;
  const bool even = layers % plan.megatron->pipeline == 0 && chunk % 2 == 0;
  if (even && plan.accumulation % plan.megatron->pipeline == 0) {
    ParallelPlan interleaved = plan;
    interleaved.megatron->layers_per_chunk = chunk / 2;
    out.push_back(interleaved);
  }
  add_smaller_batch(plan, out);
  if (plan.megatron->pipeline % 2 == 0) {
    ParallelPlan shorter = plan;
    shorter.megatron->pipeline /= 2;
    shorter.megatron->tensor *= 2;
    out.push_back(shorter);
  }
}

void add_less_offload(const ParallelPlan& plan, std::vector<ParallelPlan>& out) {
  if (plan.zero && plan.zero->offload_param != ir::OffloadDevice::kNone) {
    ParallelPlan kept = plan;
    kept.zero->offload_param = ir::OffloadDevice::kNone;
    out.push_back(kept);
  }
  if (plan.zero && plan.zero->offload_optimizer != ir::OffloadDevice::kNone) {
    ParallelPlan kept = plan;
    kept.zero->offload_optimizer = ir::OffloadDevice::kNone;
    kept.zero->offload_ratio = 1;
    out.push_back(kept);
  }
  if (plan.fsdp && plan.fsdp->cpu_offload) {
    ParallelPlan kept = plan;
    kept.fsdp->cpu_offload = false;
    out.push_back(kept);
  }
  if (plan.megatron && plan.megatron->offloaded_layers > 0) {
    for (const std::int64_t layers : {plan.megatron->offloaded_layers / 2, std::int64_t{0}}) {
      ParallelPlan kept = plan;
      kept.megatron->offloaded_layers = layers;
      out.push_back(kept);
    }
  }
  add_larger_batch(plan, out);
}

/// The parts of a step that a bottleneck is made of.
std::span<const StepPart> parts_of(Bottleneck bottleneck) {
  static constexpr std::array<StepPart, 4> kCommunication = {StepPart::kTensor, StepPart::kContext,
                                                             StepPart::kExpert, StepPart::kData};
  static constexpr std::array<StepPart, 1> kHost = {StepPart::kHost};
  static constexpr std::array<StepPart, 2> kPipeline = {StepPart::kBubble, StepPart::kPipeline};
  static constexpr std::array<StepPart, 1> kOffload = {StepPart::kOffload};
  switch (bottleneck) {
    case Bottleneck::kCommunication:
      return kCommunication;
    case Bottleneck::kSmallBatch:
      return kHost;
    case Bottleneck::kBubble:
      return kPipeline;
    case Bottleneck::kOffload:
      return kOffload;
  }
  return {};
}

std::optional<Speedup> replay_change(const SpeedupQuestion& question, const StepTime& before,
                                     const ParallelPlan& plan) {
  const Result<StepEstimate> after =
      estimate(question.model, plan, question.device, question.budget, &question.machine);
  if (!after || !after->time || after->verdict == Verdict::kDoesNotFit) {
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

std::string_view describe(Bottleneck bottleneck) {
  switch (bottleneck) {
    case Bottleneck::kCommunication:
      return "exposed communication";
    case Bottleneck::kSmallBatch:
      return "kernels too small for their launches";
    case Bottleneck::kBubble:
      return "the pipeline's bubble and transfers";
    case Bottleneck::kOffload:
      return "offload";
  }
  return "?";
}

double share_of(const StepTime& step, Bottleneck bottleneck) {
  Seconds sum;
  for (const StepPart part : parts_of(bottleneck)) {
    sum += step.parts.of(part);
  }
  return sum / step.total;
}

std::vector<ParallelPlan> changes_against(const ParallelPlan& plan, Bottleneck bottleneck,
                                          std::int64_t layers) {
  std::vector<ParallelPlan> out;
  switch (bottleneck) {
    case Bottleneck::kCommunication:
      add_less_communication(plan, out);
      break;
    case Bottleneck::kSmallBatch:
      add_larger_batch(plan, out);
      break;
    case Bottleneck::kBubble:
      add_smaller_bubble(plan, layers, out);
      break;
    case Bottleneck::kOffload:
      add_less_offload(plan, out);
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
    std::optional<Speedup> best;
    for (const ParallelPlan& plan : changes_against(question.plan, bottleneck, layers)) {
      std::optional<Speedup> one = replay_change(question, *found.time, plan);
      if (one && (!best || one->gain > best->gain)) {
        best = std::move(one);
      }
    }
    const auto is_named = [&](const Speedup& speedup) { return speedup.plan == best->plan; };
    if (best && std::ranges::none_of(speedups, is_named)) {
      best->bottleneck = bottleneck;
      best->share = share;
      speedups.push_back(*std::move(best));
    }
  }
  return speedups;
}

}  // namespace headroom::cost
