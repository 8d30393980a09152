#include "runtimes/transformers/changes.h"

#include <array>

#include "runtimes/transformers/quantised_defaults.h"

namespace headroom::ir::transformers {
namespace {

Precision autocast_of(const DeviceTypes& device) {
  return device.bf16 ? Precision::kAutocastBf16 : Precision::kAutocastFp16;
}

/// Quantised weights that are prepared for training get it as well: the preparation leaves fp32
/// activations, which no fused attention takes.
std::optional<ParallelPlan> autocast(const ParallelPlan& plan, const DeviceTypes& device) {
  if (needs_autocast(plan)) {
    ParallelPlan changed = plan;
    changed.precision = Precision::kBf16AutocastBf16;
    changed.attention = AttentionKind::kSdpa;
    return changed;
  }
  if (plan.precision != Precision::kFp32) {
    return std::nullopt;
  }
  ParallelPlan changed = plan;
  changed.precision = autocast_of(device);
  return changed;
}

constexpr std::array<OwnChange, 15> kChanges = {
    {{Change::kExpandableSegments, &changes::expandable_segments},
     {Change::kFusedOptimizer, &changes::fused_optimizer},
     {Change::kSdpaAttention, &changes::sdpa_attention},
     {Change::kDropLogits, &changes::drop_logits},
     {Change::kMixedPrecision, &autocast},
     {Change::kPureBf16, &changes::pure_bf16},
     {Change::kUnpreparedWeights, &unprepared},
     {Change::kFusedLoss, &fused_loss},
     {Change::kFusedKernels, &fused_kernels},
     {Change::kSmallerMicroBatch, &changes::smaller_micro_batch},
     {Change::kEightBitOptimizer, &changes::eight_bit_optimizer},
     {Change::kPagedOptimizer, &changes::paged_optimizer},
     {Change::kCheckpointing, &changes::checkpointing},
     {Change::kLora, &adapters},
     {Change::kQlora, &quantised_adapters}}};

}  // namespace

std::span<const OwnChange> plan_changes() {
  return kChanges;
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
