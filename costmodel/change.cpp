#include "costmodel/change.h"

#include <array>
#include <utility>

namespace headroom::cost {
namespace {

using ir::ParallelPlan;

constexpr std::array<Change, 20> kChanges = {Change::kExpandableSegments,
                                             Change::kFusedOptimizer,
                                             Change::kSdpaAttention,
                                             Change::kDropLogits,
                                             Change::kSequenceParallel,
                                             Change::kZero1,
                                             Change::kZero2,
                                             Change::kMixedPrecision,
                                             Change::kPureBf16,
                                             Change::kFusedLoss,
                                             Change::kSmallerMicroBatch,
                                             Change::kEightBitOptimizer,
                                             Change::kSelectiveRecompute,
                                             Change::kCheckpointing,
                                             Change::kMoreTensorParallel,
                                             Change::kZero3,
                                             Change::kOffloadOptimizer,
                                             Change::kLora,
                                             Change::kQlora,
                                             Change::kOffloadParameters};

/// DeepSpeed's recipe for what the plan computes in: an fp32 master copy of 16-bit parameters.
ir::Precision deepspeed_precision(ir::Precision precision) {
  switch (precision) {
    case ir::Precision::kFp32:
      return ir::Precision::kFp32;
    case ir::Precision::kBf16:
    case ir::Precision::kAutocastBf16:
    case ir::Precision::kBf16AutocastBf16:
    case ir::Precision::kBf16Master:
      return ir::Precision::kBf16Master;
    case ir::Precision::kFp16:
    case ir::Precision::kAutocastFp16:
    case ir::Precision::kFp16Master:
      return ir::Precision::kFp16Master;
  }
  return precision;
}

std::optional<ParallelPlan> with_zero(ParallelPlan plan, int stage) {
  const int before = plan.zero ? plan.zero->stage : 0;
  const bool quantised_stage3 = plan.quant.has_value() && stage == 3;
  if (plan.world < 2 || before >= stage || quantised_stage3) {
    return std::nullopt;
  }
  plan.runtime = "deepspeed";
  plan.precision = deepspeed_precision(plan.precision);
  plan.ddp.reset();
  plan.zero = plan.zero.value_or(ir::ZeroPlan{});
  plan.zero->stage = stage;
  return plan;
}

std::optional<ParallelPlan> with_optimizer_form(ParallelPlan plan, ir::OptimizerForm form) {
  const bool adam = plan.optimizer.kind == ir::OptimizerKind::kAdamW;
  const bool sgd =
      plan.optimizer.kind == ir::OptimizerKind::kSgd && form == ir::OptimizerForm::kFused;
  const bool whole =
      plan.optimizer.form == ir::OptimizerForm::kForeach ||
      plan.optimizer.form == ir::OptimizerForm::kLoop ||
      (plan.optimizer.form == ir::OptimizerForm::kFused && form == ir::OptimizerForm::kEightBit);
  const bool offloaded = plan.zero && plan.zero->offload_optimizer != ir::OffloadDevice::kNone;
  if (!(adam || sgd) || !whole || offloaded) {
    return std::nullopt;
  }
  plan.optimizer.form = form;
  return plan;
}

std::optional<ParallelPlan> with_smaller_micro_batch(ParallelPlan plan) {
  if (plan.micro_batch % 2 != 0) {
    return std::nullopt;
  }
  plan.micro_batch /= 2;
  plan.accumulation *= 2;
  return plan;
}

std::optional<ParallelPlan> with_offload(ParallelPlan plan, bool parameters) {
  if (plan.quant) {
    return std::nullopt;
  }
  ir::ZeroPlan zero = plan.zero.value_or(ir::ZeroPlan{});
  const ir::OffloadDevice already = parameters ? zero.offload_param : zero.offload_optimizer;
  if (already != ir::OffloadDevice::kNone) {
    return std::nullopt;
  }
  if (zero.offload_optimizer == ir::OffloadDevice::kNone) {
    zero.offload_optimizer = ir::OffloadDevice::kCpu;
  }
  if (parameters) {
    zero.offload_param = ir::OffloadDevice::kCpu;
    zero.stage = 3;
  } else if (zero.stage == 0) {
    zero.stage = 2;
  }
  plan.runtime = "deepspeed";
  plan.precision = deepspeed_precision(plan.precision);
  plan.ddp.reset();
  plan.zero = zero;
  if (plan.optimizer.kind == ir::OptimizerKind::kAdamW) {
    plan.optimizer.form = ir::OptimizerForm::kFused;  // DeepSpeedCPUAdam.
  }
  return plan;
}

std::optional<ParallelPlan> with_precision(ParallelPlan plan, bool pure, const DeviceSpec& device) {
  const bool fp32 = plan.precision == ir::Precision::kFp32;
  const bool autocast = plan.precision == ir::Precision::kAutocastBf16 ||
                        plan.precision == ir::Precision::kAutocastFp16;
  const bool master = plan.precision == ir::Precision::kBf16Master;
  if (plan.runtime == "deepspeed") {
    if (pure || !fp32) {
      return std::nullopt;
    }
    plan.precision = device.bf16 ? ir::Precision::kBf16Master : ir::Precision::kFp16Master;
    return plan;
  }
  if (pure) {
    if (!device.bf16 || !(fp32 || autocast || master)) {
      return std::nullopt;
    }
    plan.precision = ir::Precision::kBf16;
    return plan;
  }
  if (!fp32) {
    return std::nullopt;
  }
  plan.precision = device.bf16 ? ir::Precision::kAutocastBf16 : ir::Precision::kAutocastFp16;
  return plan;
}

std::optional<ParallelPlan> with_adapters(ParallelPlan plan, bool quantised,
                                          const DeviceSpec& device) {
  const bool stage3 = plan.zero && plan.zero->stage == 3;
  if ((plan.lora && !quantised) || (plan.quant && quantised) || (quantised && stage3)) {
    return std::nullopt;
  }
  plan.lora = plan.lora.value_or(ir::LoraPlan{});
  if (!quantised) {
    return plan;
  }
  plan.quant = ir::QuantPlan{};
  if (plan.precision == ir::Precision::kFp32) {
    plan.precision = device.bf16 ? ir::Precision::kAutocastBf16 : ir::Precision::kAutocastFp16;
  }
  plan.optimizer = {ir::OptimizerKind::kAdamW, ir::OptimizerForm::kPagedEightBit, 0};
  // prepare_model_for_kbit_training switches it on.
  if (plan.recompute == ir::Recompute::kNone) {
    plan.recompute = ir::Recompute::kFull;
  }
  return plan;
}

/// Changes that FSDP can follow; it shards already, and its policy sets the types.
bool fsdp_has(Change change) {
  switch (change) {
    case Change::kExpandableSegments:
    case Change::kFusedOptimizer:
    case Change::kSdpaAttention:
    case Change::kDropLogits:
    case Change::kPureBf16:
    case Change::kSmallerMicroBatch:
    case Change::kCheckpointing:
      return true;
    default:
      return false;
  }
}

/// Twice the tensor-parallel ranks in place of half the data-parallel ones.
ParallelPlan with_more_tensor_parallel(ParallelPlan plan) {
  ir::MegatronPlan& megatron = *plan.megatron;
  const std::int64_t model = megatron.tensor * megatron.pipeline * megatron.context;
  if (plan.world % (2 * model) == 0) {
    megatron.tensor *= 2;
    megatron.sequence_parallel = true;
    plan.accumulation *= 2;
  }
  return plan;
}

/// Scores and MLPs again in backward; a norm costs next to nothing to repeat.
void recompute_selectively(ir::MegatronPlan& megatron) {
  if (megatron.recompute == ir::MegatronRecompute::kNone) {
    megatron.recompute = ir::MegatronRecompute::kSelective;
    megatron.recompute_modules = {.core_attention = true, .norms = true, .mlp = true};
  }
}

/// The same changes as Megatron-Core has them: its distributed optimizer is ZeRO-1.
std::optional<ParallelPlan> with_megatron_change(ParallelPlan plan, Change change) {
  const ParallelPlan before = plan;
  ir::MegatronPlan& megatron = *plan.megatron;
  switch (change) {
    case Change::kExpandableSegments:
      plan.allocator.expandable_segments = true;
      break;
    case Change::kSequenceParallel:
      megatron.sequence_parallel = megatron.tensor > 1;
      break;
    case Change::kSdpaAttention:
      if (megatron.attention == ir::MegatronAttention::kUnfused) {
        megatron.attention = ir::MegatronAttention::kFused;
      }
      break;
    case Change::kSelectiveRecompute:
      recompute_selectively(megatron);
      megatron.offloaded_layers = 0;  // Megatron has one or the other.
      break;
    case Change::kMoreTensorParallel:
      plan = with_more_tensor_parallel(std::move(plan));
      break;
    case Change::kZero1:
      megatron.distributed_optimizer = true;
      break;
    case Change::kSmallerMicroBatch:
      return with_smaller_micro_batch(plan);
    case Change::kCheckpointing:
      megatron.recompute = ir::MegatronRecompute::kFullUniform;
      megatron.recompute_layers = 1;
      megatron.recompute_modules = {};
      megatron.offloaded_layers = 0;
      megatron.offload_modules = {};
      break;
    default:
      return std::nullopt;
  }
  return plan == before ? std::nullopt : std::optional(std::move(plan));
}

struct ChangeWords {
  std::string_view what;
  std::string_view cost;
  std::string_view source;
};

ChangeWords words_of_change(Change change) {
  switch (change) {
    case Change::kExpandableSegments:
      return {"let the allocator grow its segments", "none to speak of",
              "pytorch/pytorch c10/cuda/CUDACachingAllocator.cpp, Note [Expandable Segments]"};
    case Change::kFusedOptimizer:
      return {"fused optimizer, no temporaries in its step", "none: fewer kernels",
              "pytorch/pytorch torch/optim/adam.py, _fused_adam"};
    case Change::kSdpaAttention:
      return {"attention that keeps no S x S scores", "none: faster",
              "Dao et al. 2022, FlashAttention, arXiv:2205.14135"};
    case Change::kDropLogits:
      return {"let go of the model's output before backward", "none",
              "pytorch/pytorch: a tensor lives as long as a name holds it"};
    case Change::kSequenceParallel:
      return {"cut norms and residuals among tensor-parallel ranks", "none: as much communication",
              "Korthikanti et al. 2022, Reducing Activation Recomputation, arXiv:2205.05198"};
    case Change::kZero1:
      return {"shard the optimizer states (ZeRO-1)", "none: as much communication as DDP",
              "Rajbhandari et al. 2020, ZeRO, arXiv:1910.02054, section 7"};
    case Change::kZero2:
      return {"shard optimizer states and gradients (ZeRO-2)", "none: as much communication as DDP",
              "Rajbhandari et al. 2020, ZeRO, arXiv:1910.02054, section 7.2.1"};
    case Change::kMixedPrecision:
      return {"mixed precision", "none: faster on tensor cores",
              "Micikevicius et al. 2018, Mixed Precision Training, arXiv:1710.03740"};
    case Change::kPureBf16:
      return {"parameters, gradients and states in bf16", "faster; small updates are rounded away",
              "Micikevicius et al. 2018, arXiv:1710.03740, section 3.1 (why masters exist)"};
    case Change::kFusedLoss:
      return {"loss fused with the output layer (Liger)", "little: logits in chunks",
              "Hsu et al. 2024, Liger Kernel, arXiv:2410.10989, section 3.2"};
    case Change::kSmallerMicroBatch:
      return {"smaller micro-batches, accumulated", "smaller matrices: less of the GPU's peak",
              "same number of FLOPs per step"};
    case Change::kEightBitOptimizer:
      return {"optimizer states in 8 bits", "little: states are quantised every step",
              "Dettmers et al. 2022, 8-bit Optimizers, arXiv:2110.02861"};
    case Change::kSelectiveRecompute:
      return {"recompute attention, norms and MLPs in backward",
              "most of one more forward, without the projections of attention",
              "Korthikanti et al. 2022, arXiv:2205.05198, section 5"};
    case Change::kMoreTensorParallel:
      return {"twice the tensor-parallel ranks",
              "more communication in every layer, smaller matrices",
              "Shoeybi et al. 2019, Megatron-LM, arXiv:1909.08053, section 3"};
    case Change::kCheckpointing:
      return {"recompute every layer in backward", "one more forward, up to +33 % FLOPs",
              "Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost, arXiv:1604.06174"};
    case Change::kZero3:
      return {"shard parameters as well (ZeRO-3)", "1.5 times the communication of DDP",
              "Rajbhandari et al. 2020, ZeRO, arXiv:1910.02054, section 7.2.2"};
    case Change::kOffloadOptimizer:
      return {"optimizer and its states on the CPU",
              "gradients and parameters over PCIe, step on the CPU",
              "Ren et al. 2021, ZeRO-Offload, arXiv:2101.06840"};
    case Change::kLora:
      return {"train adapters only (LoRA, r=16)", "other training: the weights stay as they are",
              "Hu et al. 2021, LoRA, arXiv:2106.09685"};
    case Change::kQlora:
      return {"train adapters on 4-bit weights (QLoRA), recomputing",
              "other training; one more forward, dequantisation",
              "Dettmers et al. 2023, QLoRA, arXiv:2305.14314"};
    case Change::kOffloadParameters:
      return {"parameters and optimizer on the CPU (ZeRO-3)",
              "all parameters over PCIe in forward and backward",
              "Rajbhandari et al. 2021, ZeRO-Infinity, arXiv:2104.07857"};
  }
  return {};
}

}  // namespace

std::span<const Change> all_changes() {
  return kChanges;
}

std::string_view describe(Change change) {
  return words_of_change(change).what;
}
std::string_view cost_of(Change change) {
  return words_of_change(change).cost;
}
std::string_view source_of(Change change) {
  return words_of_change(change).source;
}

std::optional<ParallelPlan> with_change(const ParallelPlan& plan, Change change,
                                        const DeviceSpec& device) {
  const bool shards = plan.fsdp || plan.runtime == "fsdp" || plan.runtime == "torchtitan";
  if (shards && !fsdp_has(change)) {
    return std::nullopt;
  }
  if (plan.megatron) {
    return with_megatron_change(plan, change);
  }
  ParallelPlan changed = plan;
  switch (change) {
    case Change::kSequenceParallel:
    case Change::kMoreTensorParallel:
    case Change::kSelectiveRecompute:
      return std::nullopt;  // Nothing but Megatron has them.
    case Change::kExpandableSegments:
      changed.allocator.expandable_segments = true;
      break;
    case Change::kFusedOptimizer:
      return with_optimizer_form(plan, ir::OptimizerForm::kFused);
    case Change::kSdpaAttention:
      if (plan.attention == ir::AttentionKind::kEager) {
        changed.attention = ir::AttentionKind::kSdpa;
      }
      break;
    case Change::kDropLogits:
      changed.keep_logits = false;
      break;
    case Change::kZero1:
      return with_zero(plan, 1);
    case Change::kZero2:
      return with_zero(plan, 2);
    case Change::kMixedPrecision:
      return with_precision(plan, false, device);
    case Change::kPureBf16:
      return with_precision(plan, true, device);
    case Change::kFusedLoss:
      changed.loss = ir::LossKind::kFusedLinear;
      break;
    case Change::kSmallerMicroBatch:
      return with_smaller_micro_batch(plan);
    case Change::kEightBitOptimizer:
      return !shards && plan.runtime != "deepspeed"
                 ? with_optimizer_form(plan, ir::OptimizerForm::kEightBit)
                 : std::nullopt;
    case Change::kCheckpointing:
      changed.recompute =
          plan.recompute == ir::Recompute::kNone ? ir::Recompute::kFull : plan.recompute;
      changed.recompute_every = 1;
      if (changed.titan) {
        changed.titan->selective_operators = false;
        changed.titan->memory_budget.reset();
      }
      break;
    case Change::kZero3:
      return with_zero(plan, 3);
    case Change::kOffloadOptimizer:
      return with_offload(plan, false);
    case Change::kLora:
      return with_adapters(plan, false, device);
    case Change::kQlora:
      return with_adapters(plan, true, device);
    case Change::kOffloadParameters:
      return with_offload(plan, true);
  }
  return changed == plan ? std::nullopt : std::optional(changed);
}

}  // namespace headroom::cost
