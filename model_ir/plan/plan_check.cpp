#include "model_ir/plan/plan_check.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "model_ir/json/json_value.h"
#include "model_ir/plan/megatron_check.h"
#include "model_ir/plan/plan_limits.h"
#include "model_ir/plan/plan_words.h"

namespace headroom::ir {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 56;

/// Product that stays at the greatest number instead of overflowing. Factors are not negative.
std::int64_t saturating_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::int64_t>::max()
                                                : product;
}

/// Elements per token of the widest tensor that the model or its loss makes.
std::int64_t widest_row(const ModelSpec& model, const ParallelPlan& plan) {
  std::int64_t widest = std::max({model.hidden, model.vocabulary, 2 * model.ffn,
                                  saturating_product(3 * model.heads, model.head_dim)});
  if (model.moe) {
    widest = std::max(
        widest,
        saturating_product(model.moe->top_k, std::max(2 * model.moe->expert_ffn, model.hidden)));
  }
  // Also where the plan asks for another kernel: a mask or an old device makes PyTorch fall back.
  const std::int64_t scores = saturating_product(model.heads, plan.sequence);
  return std::max(widest, scores);
}

Status check_sizes(const ModelSpec& model, const ParallelPlan& plan) {
  const std::int64_t tokens = saturating_product(plan.micro_batch, plan.sequence);
  if (plan.micro_batch < 1 || plan.sequence < 1 || plan.sequence > kMostSequence ||
      tokens > kMostTokens || saturating_product(tokens, widest_row(model, plan)) > kMostElements) {
    return Error::invalid_argument(
        "micro-batch", std::to_string(plan.micro_batch) + " x " + std::to_string(plan.sequence),
        "a micro-batch of at most " + std::to_string(kMostTokens) +
            " tokens, and no tensor of more than 2^56 elements",
        "lower --micro-batch or --seq");
  }
  if (plan.rank && (*plan.rank < 0 || *plan.rank >= plan.world)) {
    return Error::invalid_argument("rank", std::to_string(*plan.rank),
                                   "a rank from 0 to " + std::to_string(plan.world - 1));
  }
  // The last token that is generated is not read any more.
  const std::int64_t generated = plan.generation ? plan.generation->new_tokens : 0;
  const std::int64_t most = model.max_positions - plan.sequence + 1;
  if (model.position == PositionKind::kLearned && plan.sequence <= model.max_positions &&
      generated > most) {
    return Error::invalid_argument(
        "generate", std::to_string(generated),
        "at most " + std::to_string(most) + " behind --seq " + std::to_string(plan.sequence) +
            ": this model has no positions beyond " + std::to_string(model.max_positions),
        "use a shorter --seq");
  }
  if (model.position == PositionKind::kLearned && plan.sequence > model.max_positions) {
    return Error::invalid_argument(
        "seq", std::to_string(plan.sequence),
        "at most " + std::to_string(model.max_positions) + ": this model has no positions beyond",
        "use --seq " + std::to_string(model.max_positions));
  }
  return ok();
}

Status check_precision(const ParallelPlan& plan) {
  if (!plan.runtime_version.empty() &&
      (plan.runtime != RuntimeKind::kTransformers || plan.model_code != ModelCode::kTransformers) &&
      plan.model_code != ModelCode::kTorchtitan) {
    return Error::invalid_argument("runtime-version", plan.runtime_version,
                                   "nothing: one version of this framework is modelled",
                                   "see docs/model-assumptions.md, and leave it out");
  }
  const bool master =
      plan.precision == Precision::kBf16Master || plan.precision == Precision::kFp16Master;
  if (plan.runtime == RuntimeKind::kDeepspeed && !master && plan.precision != Precision::kFp32) {
    return Error::invalid_argument("precision", word_of(precision_words(), plan.precision),
                                   "bf16-master, fp16-master or fp32: DeepSpeed keeps an fp32 "
                                   "master copy of 16-bit parameters");
  }
  return ok();
}

Status check_optimizer(const ParallelPlan& plan) {
  if (plan.optimizer.kind == OptimizerKind::kMuon && plan.runtime != RuntimeKind::kTransformers) {
    return Error::invalid_argument("optimizer", "muon under another runtime",
                                   "muon under the runtime transformers: shards are no matrices",
                                   "use --runtime transformers, or another optimizer");
  }
  OptimizerPlan form = plan.optimizer;
  form.momentum = 0;
  for (const Word<OptimizerPlan>& word : optimizer_words()) {
    OptimizerPlan known = word.value;
    known.momentum = 0;
    if (known == form) {
      return ok();
    }
  }
  return Error::invalid_argument("optimizer", "a form that this optimizer does not have",
                                 "one of " + join(texts_of(optimizer_words())));
}

/// ZeRO++ and leaf modules are stage 3's. Source: deepspeed/utils/groups.py,
/// _create_zero_param_parallel_group.
Status check_zero_plus(const ParallelPlan& plan, const ZeroPlan& zero) {
  const std::int64_t ranks = std::min(zero.hpz_partition_size, plan.world);
  const bool plus = zero.hpz_partition_size != 1 || zero.quantized_weights ||
                    zero.quantized_gradients || zero.leaf != ZeroLeaf::kDefault;
  if (plus && zero.stage != 3) {
    return Error::invalid_argument("zeropp", "ZeRO stage " + std::to_string(zero.stage),
                                   "ZeRO stage 3, which alone gathers parameters", "add --zero 3");
  }
  if (zero.quantized_gradients && plan.world > zero.node_devices &&
      plan.world % zero.node_devices != 0) {
    return Error::invalid_argument("zeropp", "node=" + std::to_string(zero.node_devices),
                                   "a divisor of the " + std::to_string(plan.world) + " ranks");
  }
  if (zero.hpz_partition_size < 1 || plan.world % ranks != 0) {
    return Error::invalid_argument("zeropp", "hpz=" + std::to_string(zero.hpz_partition_size),
                                   "a divisor of the " + std::to_string(plan.world) + " ranks");
  }
  return ok();
}

/// Switches that DeepSpeed itself refuses, or whose combinations are not known.
/// Source: deepspeed/runtime/zero/config.py, stage_1_and_2.py (__init__), stage3.py
/// (__reduce_and_partition_ipg_grads); runtime/engine.py, _do_sanity_check_optimizer.
Status check_zero_switches(const ParallelPlan& plan, const ZeroPlan& zero) {
  if (!zero.compute_grad_norm) {
    const bool bf16_optimizer =
        zero.stage == 1 && plan.precision == Precision::kBf16Master && zero.grad_accum_dtype;
    const bool fails = zero.stage < 1 || zero.stage > 2 || plan.clip_norm || bf16_optimizer ||
                       zero.offload_optimizer != OffloadDevice::kNone;
    if (fails) {
      return Error::invalid_argument(
          "compute_grad_norm", "false",
          "ZeRO stage 1 or 2 without clipping, optimizer offload, or (stage 1) bf16 gradients "
          "accumulated in fp32",
          "leave the key out, or set gradient_clipping to 0");
    }
  }
  if (!zero.reduce_scatter && zero.quantized_gradients) {
    return Error::invalid_argument("reduce_scatter", "false beside zero_quantized_gradients",
                                   "one of them: a bucket that all ranks get is not quantised",
                                   "leave reduce_scatter out");
  }
  const bool gathers_whole = zero.quantized_weights || zero.hpz_partition_size != 1;
  if (gathers_whole && (zero.allgather_sequential || zero.all_reduce_fetch)) {
    return Error::invalid_argument(
        zero.allgather_sequential ? "allgather_sequential" : "use_all_reduce_for_fetch_params",
        "true beside ZeRO++", "plain gathers: quantised or in two levels they are not modelled so",
        "leave the key out");
  }
  return ok();
}

/// What DeepSpeed asserts of a share below one, and a drive, whose swapping does not know of it.
/// Source: deepspeed/runtime/zero/config.py, offload_ratio_check; stage3.py, __init__ ("Hybrid
/// Optimizer Only Supports DeepSpeedCPUAdam"), _create_fp32_partitions.
Status check_offload_ratio(const ParallelPlan& plan, const ZeroPlan& zero) {
  if (zero.offload_ratio == 1) {
    return ok();
  }
  const std::string value = "optimizer-ratio=" + to_json(JsonValue{zero.offload_ratio});
  if (!(zero.offload_ratio >= 0 && zero.offload_ratio <= 1)) {
    return Error::invalid_argument("offload", value, "a share from 0 to 1");
  }
  if (zero.stage != 3 || zero.offload_optimizer != OffloadDevice::kCpu) {
    return Error::invalid_argument("offload", value,
                                   "ZeRO stage 3 with the optimizer on the host (cpu)",
                                   "add --zero 3 --offload optimizer=cpu");
  }
  const bool cpu_adam = plan.optimizer.kind == OptimizerKind::kAdamW &&
                        plan.optimizer.form == OptimizerForm::kFused && !zero.torch_adam;
  if (!cpu_adam) {
    return Error::invalid_argument("offload", value,
                                   "DeepSpeedCPUAdam, the only optimizer that DeepSpeed splits",
                                   "leave --optimizer out");
  }
  return ok();
}

Status check_zero(const ParallelPlan& plan) {
  if (!plan.zero) {
    return ok();
  }
  const ZeroPlan& zero = *plan.zero;
  if (plan.runtime != RuntimeKind::kDeepspeed) {
    return Error::invalid_argument("zero", std::to_string(zero.stage),
                                   "the runtime deepspeed, which alone has ZeRO",
                                   "add --runtime deepspeed");
  }
  if (zero.offload_optimizer != OffloadDevice::kNone && zero.stage == 0) {
    return Error::invalid_argument("offload", "optimizer", "ZeRO stage 1, 2 or 3", "add --zero 2");
  }
  if (zero.offload_param != OffloadDevice::kNone && zero.stage != 3) {
    return Error::invalid_argument("offload", "param",
                                   "ZeRO stage 3, which alone shards parameters", "add --zero 3");
  }
  if (zero.grad_accum_dtype && (*zero.grad_accum_dtype != DType::kFp32 || zero.stage == 0 ||
                                plan.precision == Precision::kFp32)) {
    return Error::invalid_argument("grad_accum_dtype", name_of(*zero.grad_accum_dtype),
                                   "fp32, for 16-bit parameters from ZeRO stage 1 on",
                                   "leave it out to accumulate in the parameters' type");
  }
  const bool nvme =
      zero.offload_optimizer == OffloadDevice::kNvme || zero.offload_param == OffloadDevice::kNvme;
  if (nvme && zero.nvme_path.empty()) {
    return Error::invalid_argument("offload", "nvme", "the folder of the drive, too",
                                   "add path=/local_nvme to --offload");
  }
  if (const Status share = check_offload_ratio(plan, zero); !share) {
    return share;
  }
  const Status plus = check_zero_plus(plan, zero);
  return plus ? check_zero_switches(plan, zero) : plus;
}

Status check_adapters(const ParallelPlan& plan) {
  if (plan.quant && !plan.lora) {
    return Error::invalid_argument("qlora", "quantised weights without adapters",
                                   "adapters: quantised weights are frozen", "add --lora r=16");
  }
  if (plan.ddp && plan.runtime != RuntimeKind::kTransformers) {
    return Error::invalid_argument("ddp", "DistributedDataParallel under another runtime",
                                   "the runtime transformers",
                                   "use --runtime transformers, or leave out --ddp");
  }
  return ok();
}

Status check_fsdp(const ParallelPlan& plan) {
  if (plan.fsdp && plan.runtime != RuntimeKind::kFsdp) {
    return Error::invalid_argument("fsdp", word_of(runtime_words(), plan.runtime),
                                   "the runtime fsdp, which alone has fully_shard",
                                   "add --runtime fsdp");
  }
  if (plan.fsdp && (plan.fsdp->replicas < 1 || plan.world % plan.fsdp->replicas != 0)) {
    return Error::invalid_argument("fsdp", "replicas=" + std::to_string(plan.fsdp->replicas),
                                   "a divisor of the " + std::to_string(plan.world) + " ranks");
  }
  return ok();
}

/// torchtitan's code runs on fully_shard, and its choices are nobody else's.
Status check_titan(const ParallelPlan& plan) {
  const bool code = plan.model_code == ModelCode::kTorchtitan;
  if (code && plan.runtime != RuntimeKind::kFsdp) {
    return Error::invalid_argument("model_code", "torchtitan under another runtime",
                                   "the runtime fsdp", "add --runtime fsdp");
  }
  if (plan.titan && !code) {
    return Error::invalid_argument("titan", word_of(model_code_words(), plan.model_code),
                                   "the modelling code of torchtitan",
                                   "add --model-code torchtitan");
  }
  return ok();
}

/// What stands between torchtune's choices and its recipes.
std::string_view tune_trouble(const ParallelPlan& plan) {
  const TunePlan& tune = *plan.tune;
  const bool recomputed = plan.recompute == Recompute::kFull && plan.recompute_every == 1;
  const bool alone = plan.runtime == RuntimeKind::kTransformers && !plan.ddp;
  if (tune.compiled && !recomputed) {
    return "compiled layers without --checkpointing full: what they keep is not modelled";
  }
  if (tune.offload_activations && (!recomputed || !alone)) {
    return "offloaded activations without --checkpointing full, or on several GPUs";
  }
  if (tune.optimizer_in_backward && (plan.accumulation > 1 || plan.clip_norm || !alone)) {
    return "the optimizer in backward with accumulation, clipping or several GPUs";
  }
  return {};
}

/// torchtune's code runs on one GPU or on fully_shard; its choices are nobody else's.
Status check_tune(const ParallelPlan& plan) {
  const bool code = plan.model_code == ModelCode::kTorchtune;
  if (code && plan.runtime != RuntimeKind::kTransformers && plan.runtime != RuntimeKind::kFsdp) {
    return Error::invalid_argument("model_code", "torchtune under another runtime",
                                   "the runtime transformers or fsdp", "leave out --runtime");
  }
  if (plan.tune && !code) {
    return Error::invalid_argument("tune", word_of(model_code_words(), plan.model_code),
                                   "the modelling code of torchtune", "add --model-code torchtune");
  }
  const std::string_view trouble = plan.tune ? tune_trouble(plan) : std::string_view{};
  if (!trouble.empty()) {
    return Error::invalid_argument("tune", trouble, "choices that a recipe of torchtune takes",
                                   "change them, or leave out --tune");
  }
  return ok();
}

}  // namespace

Status check_plan(const ModelSpec& model, const ParallelPlan& plan) {
  // Megatron's own findings come before those that speak of other runtimes.
  const std::array<Status, 9> findings = {check_sizes(model, plan), check_megatron(model, plan),
                                          check_precision(plan),    check_optimizer(plan),
                                          check_zero(plan),         check_adapters(plan),
                                          check_fsdp(plan),         check_titan(plan),
                                          check_tune(plan)};
  for (const Status& finding : findings) {
    if (!finding) {
      return finding;
    }
  }
  return ok();
}

}  // namespace headroom::ir
