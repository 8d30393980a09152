#include "runtimes/interface/change.h"

#include <array>

namespace headroom::ir {
namespace {

std::optional<ParallelPlan> with_optimizer_form(ParallelPlan plan, OptimizerForm form) {
  const bool adam = plan.optimizer.kind == OptimizerKind::kAdamW;
  const bool sgd = plan.optimizer.kind == OptimizerKind::kSgd && form == OptimizerForm::kFused;
  const bool quantises = form != OptimizerForm::kFused;
  const bool whole =
      plan.optimizer.form == OptimizerForm::kForeach ||
      plan.optimizer.form == OptimizerForm::kLoop ||
      (plan.optimizer.form == OptimizerForm::kFused && quantises) ||
      (plan.optimizer.form == OptimizerForm::kEightBit && form == OptimizerForm::kPagedEightBit);
  if (!(adam || sgd) || !whole) {
    return std::nullopt;
  }
  plan.optimizer.form = form;
  return plan;
}

constexpr std::array<OwnChange, 2> kUsual = {
    {{Change::kExpandableSegments, &changes::expandable_segments},
     {Change::kSmallerMicroBatch, &changes::smaller_micro_batch}}};

}  // namespace

namespace changes {

std::optional<ParallelPlan> expandable_segments(const ParallelPlan& plan,
                                                const DeviceTypes& /*device*/) {
  ParallelPlan changed = plan;
  changed.allocator.expandable_segments = true;
  return changed;
}

std::optional<ParallelPlan> fused_optimizer(const ParallelPlan& plan,
                                            const DeviceTypes& /*device*/) {
  return with_optimizer_form(plan, OptimizerForm::kFused);
}

std::optional<ParallelPlan> sdpa_attention(const ParallelPlan& plan,
                                           const DeviceTypes& /*device*/) {
  ParallelPlan changed = plan;
  if (plan.attention == AttentionKind::kEager) {
    changed.attention = AttentionKind::kSdpa;
  }
  return changed;
}

std::optional<ParallelPlan> drop_logits(const ParallelPlan& plan, const DeviceTypes& /*device*/) {
  ParallelPlan changed = plan;
  changed.workload.keep_logits = false;
  return changed;
}

std::optional<ParallelPlan> pure_bf16(const ParallelPlan& plan, const DeviceTypes& device) {
  const bool wider =
      plan.precision == Precision::kFp32 || plan.precision == Precision::kAutocastBf16 ||
      plan.precision == Precision::kAutocastFp16 || plan.precision == Precision::kBf16Master;
  if (!device.bf16 || !wider) {
    return std::nullopt;
  }
  ParallelPlan changed = plan;
  changed.precision = Precision::kBf16;
  return changed;
}

std::optional<ParallelPlan> smaller_micro_batch(const ParallelPlan& plan,
                                                const DeviceTypes& /*device*/) {
  if (plan.workload.micro_batch % 2 != 0) {
    return std::nullopt;
  }
  ParallelPlan changed = plan;
  changed.workload.micro_batch /= 2;
  changed.workload.accumulation *= 2;
  return changed;
}

std::optional<ParallelPlan> eight_bit_optimizer(const ParallelPlan& plan,
                                                const DeviceTypes& /*device*/) {
  return with_optimizer_form(plan, OptimizerForm::kEightBit);
}

std::optional<ParallelPlan> paged_optimizer(const ParallelPlan& plan,
                                            const DeviceTypes& /*device*/) {
  return with_optimizer_form(plan, OptimizerForm::kPagedEightBit);
}

std::optional<ParallelPlan> checkpointing(const ParallelPlan& plan, const DeviceTypes& /*device*/) {
  ParallelPlan changed = plan;
  changed.recompute = plan.recompute == Recompute::kNone ? Recompute::kFull : plan.recompute;
  changed.recompute_every = 1;
  changed.recompute_first = 0;
  return changed;
}

}  // namespace changes

std::span<const OwnChange> usual_changes() {
  return kUsual;
}

std::vector<Change> usual_remedy_order(const ParallelPlan& plan) {
  std::vector<Change> order = {Change::kMixedPrecision, Change::kCheckpointing,
                               Change::kSmallerMicroBatch};
  if (plan.world > 1) {
    order.insert(order.end(), {Change::kZero1, Change::kZero2, Change::kZero3});
  } else {
    order.insert(order.end(), {Change::kEightBitOptimizer, Change::kPureBf16, Change::kQlora});
  }
  order.insert(order.end(), {Change::kOffloadOptimizer, Change::kOffloadParameters});
  return order;
}

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
    case Bottleneck::kRecomputation:
      return "recomputation";
    case Bottleneck::kKernels:
      return "attention, memory-bound kernels and the optimizer";
  }
  return "?";
}

}  // namespace headroom::ir
