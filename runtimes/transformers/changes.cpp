#include "runtimes/transformers/changes.h"

#include <array>
#include <utility>

namespace headroom::ir::transformers {
namespace {

/// DeepSpeed's precision for the type in which the plan computes: an fp32 master copy of 16-bit
/// parameters.
Precision master_precision(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return Precision::kFp32;
    case Precision::kBf16:
    case Precision::kAutocastBf16:
    case Precision::kBf16AutocastBf16:
    case Precision::kBf16Master:
      return Precision::kBf16Master;
    case Precision::kFp16:
    case Precision::kAutocastFp16:
    case Precision::kFp16Master:
      return Precision::kFp16Master;
  }
  return precision;
}

/// The plan under a DeepSpeed engine.
ParallelPlan under_engine(ParallelPlan plan, ZeroPlan zero) {
  plan.runtime = "deepspeed";
  plan.precision = master_precision(plan.precision);
  plan.ddp.reset();
  plan.zero = std::move(zero);
  return plan;
}

std::optional<ParallelPlan> with_stage(const ParallelPlan& plan, int stage) {
  ZeroPlan zero = plan.zero.value_or(ZeroPlan{});
  const bool quantised_stage3 = plan.quant.has_value() && stage == 3;
  if (plan.world < 2 || zero.stage >= stage || quantised_stage3) {
    return std::nullopt;
  }
  zero.stage = stage;
  return under_engine(plan, std::move(zero));
}

Precision autocast_of(const DeviceTypes& device) {
  return device.bf16 ? Precision::kAutocastBf16 : Precision::kAutocastFp16;
}

std::optional<ParallelPlan> autocast(const ParallelPlan& plan, const DeviceTypes& device) {
  if (plan.precision != Precision::kFp32) {
    return std::nullopt;
  }
  ParallelPlan changed = plan;
  changed.precision = autocast_of(device);
  return changed;
}

/// DeepSpeedCPUAdam is fused.
ParallelPlan with_host_optimizer(ParallelPlan plan) {
  if (plan.optimizer.kind == OptimizerKind::kAdamW) {
    plan.optimizer.form = OptimizerForm::kFused;
  }
  return plan;
}

constexpr std::array<OwnChange, 20> kChanges = {
    {{Change::kExpandableSegments, &changes::expandable_segments},
     {Change::kFusedOptimizer, &changes::fused_optimizer},
     {Change::kSdpaAttention, &changes::sdpa_attention},
     {Change::kDropLogits, &changes::drop_logits},
     {Change::kZero1, &zero1},
     {Change::kZero2, &zero2},
     {Change::kMixedPrecision, &autocast},
     {Change::kPureBf16, &changes::pure_bf16},
     {Change::kUnpreparedWeights, &unprepared},
     {Change::kFusedLoss, &fused_loss},
     {Change::kFusedKernels, &fused_kernels},
     {Change::kSmallerMicroBatch, &changes::smaller_micro_batch},
     {Change::kEightBitOptimizer, &changes::eight_bit_optimizer},
     {Change::kPagedOptimizer, &changes::paged_optimizer},
     {Change::kCheckpointing, &changes::checkpointing},
     {Change::kZero3, &zero3},
     {Change::kOffloadOptimizer, &offloaded_optimizer},
     {Change::kLora, &adapters},
     {Change::kQlora, &quantised_adapters},
     {Change::kOffloadParameters, &offloaded_parameters}}};

}  // namespace

std::span<const OwnChange> plan_changes() {
  return kChanges;
}

std::optional<ParallelPlan> zero1(const ParallelPlan& plan, const DeviceTypes& /*device*/) {
  return with_stage(plan, 1);
}

std::optional<ParallelPlan> zero2(const ParallelPlan& plan, const DeviceTypes& /*device*/) {
  return with_stage(plan, 2);
}

std::optional<ParallelPlan> zero3(const ParallelPlan& plan, const DeviceTypes& /*device*/) {
  return with_stage(plan, 3);
}

std::optional<ParallelPlan> fused_loss(const ParallelPlan& plan, const DeviceTypes& /*device*/) {
  ParallelPlan changed = plan;
  changed.loss = LossKind::kFusedLinear;
  return changed;
}

/// PEFT's k-bit preparation casts norms, embeddings and the head to fp32.
std::optional<ParallelPlan> unprepared(const ParallelPlan& plan, const DeviceTypes& /*device*/) {
  if (!plan.quant || !plan.quant->prepare_kbit) {
    return std::nullopt;
  }
  ParallelPlan changed = plan;
  changed.quant->prepare_kbit = false;
  return changed;
}

std::optional<ParallelPlan> fused_kernels(const ParallelPlan& plan, const DeviceTypes& /*device*/) {
  ParallelPlan changed = plan;
  changed.liger = true;
  return changed;
}

std::optional<ParallelPlan> offloaded_optimizer(const ParallelPlan& plan,
                                                const DeviceTypes& /*device*/) {
  ZeroPlan zero = plan.zero.value_or(ZeroPlan{});
  if (plan.quant || zero.offload_optimizer != OffloadDevice::kNone) {
    return std::nullopt;
  }
  zero.offload_optimizer = OffloadDevice::kCpu;
  zero.stage = zero.stage == 0 ? 2 : zero.stage;
  return with_host_optimizer(under_engine(plan, std::move(zero)));
}

std::optional<ParallelPlan> offloaded_parameters(const ParallelPlan& plan,
                                                 const DeviceTypes& /*device*/) {
  ZeroPlan zero = plan.zero.value_or(ZeroPlan{});
  if (plan.quant || zero.offload_param != OffloadDevice::kNone) {
    return std::nullopt;
  }
  if (zero.offload_optimizer == OffloadDevice::kNone) {
    zero.offload_optimizer = OffloadDevice::kCpu;
  }
  zero.offload_param = OffloadDevice::kCpu;
  zero.stage = 3;
  return with_host_optimizer(under_engine(plan, std::move(zero)));
}

std::optional<ParallelPlan> adapters(const ParallelPlan& plan, const DeviceTypes& /*device*/) {
  if (plan.lora) {
    return std::nullopt;
  }
  ParallelPlan changed = plan;
  changed.lora = LoraPlan{};
  return changed;
}

std::optional<ParallelPlan> quantised_adapters(const ParallelPlan& plan,
                                               const DeviceTypes& device) {
  if (plan.quant) {
    return std::nullopt;
  }
  ParallelPlan changed = plan;
  changed.lora = plan.lora.value_or(LoraPlan{});
  changed.quant = QuantPlan{};
  if (plan.precision == Precision::kFp32) {
    changed.precision = autocast_of(device);
  }
  changed.optimizer = {OptimizerKind::kAdamW, OptimizerForm::kPagedEightBit, 0};
  // prepare_model_for_kbit_training enables it.
  if (plan.recompute == Recompute::kNone) {
    changed.recompute = Recompute::kFull;
  }
  return changed;
}

}  // namespace headroom::ir::transformers
