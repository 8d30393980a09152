#include "costmodel/memory_floor.h"

#include <algorithm>
#include <cstdint>

#include "model_ir/spec/param_count.h"

namespace headroom::cost {
namespace {

bool keeps_master(ir::Precision precision) {
  return precision == ir::Precision::kBf16Master || precision == ir::Precision::kFp16Master;
}

/// Bits of optimizer state per trainable parameter, at least.
std::int64_t state_bits(const ir::ParallelPlan& plan) {
  const std::int64_t full =
      keeps_master(plan.precision) ? 32 : ir::bits_of(ir::param_dtype(plan.precision));
  std::int64_t states = 0;
  switch (plan.optimizer.kind) {
    case ir::OptimizerKind::kAdamW:
      states = 2;
      break;
    case ir::OptimizerKind::kLion:
    case ir::OptimizerKind::kMuon:
      states = 1;
      break;
    case ir::OptimizerKind::kSgd:
      states = plan.optimizer.momentum > 0 ? 1 : 0;
      break;
    case ir::OptimizerKind::kNone:
    case ir::OptimizerKind::kAdafactor:
    case ir::OptimizerKind::kAdafactorTorch:
      break;
  }
  switch (plan.optimizer.form) {
    case ir::OptimizerForm::kForeach:
    case ir::OptimizerForm::kFused:
    case ir::OptimizerForm::kLoop:
      return states * full;
    case ir::OptimizerForm::kEightBit:
      return states * 8;
    case ir::OptimizerForm::kPagedEightBit:
    case ir::OptimizerForm::kPaged:
      return 0;  // Pages leave the device when it is full.
  }
  return 0;
}

/// Ranks over which ZeRO spreads what `stage` begins to spread; FSDP spreads everything. Megatron
/// cuts weights and gradients among tensor-parallel ranks, stages and experts' ranks, and the
/// states of its distributed optimizer among all.
std::int64_t shards(const ir::ParallelPlan& plan, int stage) {
  if (plan.megatron) {
    const ir::MegatronPlan& megatron = *plan.megatron;
    const bool states = stage == 1 && megatron.distributed_optimizer;
    return states ? plan.world : megatron.tensor * megatron.pipeline * megatron.expert;
  }
  if (plan.fsdp || plan.runtime == "fsdp" || plan.runtime == "torchtitan") {
    return std::max<std::int64_t>(1, plan.world / plan.fsdp.value_or(ir::FsdpPlan{}).replicas);
  }
  return plan.zero && plan.zero->stage >= stage ? plan.world : 1;
}

std::int64_t weight_bits(const ir::ParallelPlan& plan) {
  if (plan.zero && plan.zero->offload_param != ir::OffloadDevice::kNone) {
    return 0;
  }
  if (plan.megatron && plan.megatron->fp8_parameters) {
    return 8;  // Products may read them either way; what stays in 16 bits is counted so, too.
  }
  return plan.quant ? plan.quant->bits : ir::bits_of(ir::param_dtype(plan.precision));
}

}  // namespace

Bytes memory_floor(const ir::ModelSpec& model, const ir::ParallelPlan& plan, HeldAt moment) {
  if (plan.fsdp && plan.fsdp->cpu_offload) {
    return Bytes{0};
  }
  const std::int64_t parameters = ir::count_parameters(model).total();
  const auto part = [](std::int64_t count, std::int64_t bits, std::int64_t ranks) {
    return Bytes{count / ranks * bits / 8};
  };
  // Under quantisation embeddings and head stay as they are; their bits are counted as the others'.
  const Bytes weights = part(parameters, weight_bits(plan), shards(plan, 3));
  if (plan.lora || plan.optimizer.kind == ir::OptimizerKind::kNone) {
    return weights;
  }
  if (plan.zero && plan.zero->offload_optimizer != ir::OffloadDevice::kNone) {
    return weights;
  }
  const bool steps_in_backward = plan.tune && plan.tune->optimizer_in_backward;
  const std::int64_t gradient_bits = steps_in_backward || moment == HeldAt::kForward
                                         ? 0
                                         : ir::bits_of(ir::param_dtype(plan.precision));
  std::int64_t optimizer_bits = state_bits(plan) + (keeps_master(plan.precision) ? 32 : 0);
  if (plan.megatron && plan.megatron->precision_aware) {
    // Half of the master copy is the parameter itself.
    optimizer_bits = 16 + 2 * (plan.megatron->bf16_moments ? 16 : 32);
  }
  if (plan.megatron && plan.megatron->optimizer_offload > 0) {
    optimizer_bits = 0;  // Whole parameters go to the host until the share is reached.
  }
  return weights + part(parameters, gradient_bits, shards(plan, plan.megatron ? 2 : 1)) +
         part(parameters, optimizer_bits, shards(plan, 1));
}

}  // namespace headroom::cost
