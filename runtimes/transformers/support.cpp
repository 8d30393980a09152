#include "runtimes/transformers/support.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "model_ir/plan/plan_words.h"
#include "model_ir/spec/task.h"
#include "runtimes/transformers/expert_adapter.h"
#include "runtimes/transformers/generation.h"
#include "runtimes/transformers/library_version.h"
#include "runtimes/transformers/liger.h"
#include "runtimes/transformers/modeling.h"
#include "runtimes/transformers/recording/replayed_model.h"

namespace headroom::ir::transformers {
namespace {

Error no_flash(std::string_view got, std::string_view wanted, std::string_view hint) {
  return Error::invalid_argument("attention", got, wanted, hint);
}

/// The error for what flash-attn's kernels refuse.
/// Source: Dao-AILab/flash-attention 2.8.3 csrc/flash_attn/flash_api.cpp, mha_fwd, run_mha_fwd.
std::optional<Error> flash_kernel_trouble(const ModelSpec& spec, const ParallelPlan& plan,
                                          const DeviceTraits& device) {
  constexpr std::int64_t kMostDims = 256;
  if (device.compute_major < 8) {
    return no_flash("flash on compute capability " + std::to_string(device.compute_major) + "." +
                        std::to_string(device.compute_minor),
                    "a GPU of compute capability 8.0 or later, which flash-attn 2 requires",
                    "use --attention sdpa");
  }
  if (plan.precision == Precision::kFp32) {
    return no_flash("flash with --precision fp32",
                    "a 16-bit precision, which FlashAttention 2 requires",
                    "use --precision bf16, or --attention sdpa");
  }
  const bool wide_weights = param_dtype(plan.precision) == DType::kFp32 && !plan.quant;
  if (wide_weights && (plan.workload.evaluation || plan.workload.generation)) {
    return no_flash("flash with fp32 weights and --evaluation or --generate",
                    "16-bit weights: evaluation and generation run outside autocast",
                    "use --attention sdpa");
  }
  if (spec.head_dim > kMostDims) {
    return no_flash("flash with head size " + std::to_string(spec.head_dim),
                    "a head size of at most " + std::to_string(kMostDims), "use --attention sdpa");
  }
  if (spec.attention_softcap > 0 && spec.dropout.attention > 0) {
    return no_flash("flash with soft-capping and attention_dropout", "at most one of them",
                    "use --attention eager, or attention_dropout 0");
  }
  return std::nullopt;
}

/// The error for what FlashAttention-2 refuses, and for what is not modelled of its integration.
std::optional<Error> flash_trouble(const ModelSpec& spec, const ParallelPlan& plan,
                                   const DeviceTraits& device) {
  if (plan.attention != AttentionKind::kFlash) {
    return std::nullopt;
  }
  if (only_eager(spec) || spec.position == PositionKind::kRelativeBias ||
      spec.position == PositionKind::kAlibi) {
    return no_flash("flash, which this model's code does not have",
                    only_eager(spec) ? "eager" : "sdpa or eager",
                    only_eager(spec) ? "use --attention eager" : "use --attention sdpa");
  }
  if (plan.workload.padded_batch) {
    return no_flash("flash with --padded",
                    "sdpa or eager: it is not known how many tokens remain without padding",
                    "leave out --padded");
  }
  return flash_kernel_trouble(spec, plan, device);
}

/// The error for what is not modelled together with the routers' auxiliary loss.
std::optional<Error> router_loss_trouble(const ModelSpec& spec, const ParallelPlan& plan) {
  if (!spec.moe || !spec.moe->auxiliary_loss) {
    return std::nullopt;
  }
  const bool others = plan.loss != LossKind::kHf;
  if (!others && !plan.workload.generation && spec.task == Task::kLanguage) {
    return std::nullopt;
  }
  return Error::invalid_argument("model",
                                 others ? "output_router_logits with --loss chunked or fused-linear"
                                 : plan.workload.generation
                                     ? "output_router_logits with --generate"
                                     : "output_router_logits with a head that classifies",
                                 "the model's own loss in training and evaluation",
                                 "set output_router_logits of config.json to false");
}

/// The usual layers that adapters are put on, as the model names them: those of queries and values.
std::string usual_targets(const ModelSpec& spec) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kNames = {
      {{"q_proj", "v_proj"},
       {"query", "value"},
       {"query_proj", "value_proj"},
       {"q_lin", "v_lin"},
       {"q", "v"}}};
  const auto has = [&](std::string_view name) {
    return spec.recording &&
           std::ranges::any_of(spec.recording->modules, [&](const RecordedModule& module) {
             return !module.linear.empty() && module.path.ends_with("." + std::string(name));
           });
  };
  const auto* const own = std::ranges::find_if(
      kNames, [&](const auto& names) { return has(names.first) && has(names.second); });
  if (own != kNames.end()) {
    return std::string(own->first) + "+" + std::string(own->second);
  }
  return spec.family == Family::kBert ? "query+value" : "q_proj+v_proj";
}

/// The error for what is not modelled for heads that classify.
std::optional<Error> task_trouble(const ModelSpec& spec, const ParallelPlan& plan) {
  if (spec.task == Task::kLanguage) {
    return std::nullopt;
  }
  const std::string task(name_of(spec.task));
  if (plan.loss != LossKind::kHf) {
    return Error::invalid_argument("loss", word_of(loss_words(), plan.loss),
                                   "hf: the other losses are those of causal language models",
                                   "leave out --loss");
  }
  if (spec.task == Task::kTokenClassification && plan.lora && plan.lora->targets.empty()) {
    return Error::invalid_argument(
        "lora", "adapters on all linear layers with " + task,
        "names of layers (targets=): PEFT fails if it adapts the head, which it also copies",
        "add targets=" + usual_targets(spec) + " to --lora");
  }
  if (plan.quant || plan.workload.generation || plan.liger) {
    return Error::invalid_argument("task",
                                   task + " with " +
                                       (plan.quant   ? "--qlora"
                                        : plan.liger ? "--liger"
                                                     : "--generate"),
                                   "a language model: this combination is not modelled",
                                   "leave out one of these options");
  }
  return std::nullopt;
}

}  // namespace

std::optional<Error> unsupported(const ModelSpec& spec, const ParallelPlan& plan,
                                 const DeviceTraits& device) {
  if (spec.recording) {
    const std::optional<Error> trouble = recording_trouble(spec, plan);
    return trouble ? trouble : task_trouble(spec, plan);
  }
  if (plan.lora && (plan.lora->dora || plan.lora->dropout > 0) &&
      expert_weights(spec, plan) == ExpertWeights::kFused && adapts_experts(spec, *plan.lora)) {
    return Error::invalid_argument("lora", "dropout or dora on experts or their router",
                                   "adapters without dropout and dora, which PEFT refuses there",
                                   "leave out dropout and dora, or name other targets");
  }
  if (const std::optional<Error> trouble = version_trouble(spec, plan)) {
    return trouble;
  }
  if (const std::optional<Error> trouble = flash_trouble(spec, plan, device)) {
    return trouble;
  }
  if (const std::optional<Error> trouble = router_loss_trouble(spec, plan)) {
    return trouble;
  }
  if (const std::optional<Error> trouble = generation_trouble(spec, plan)) {
    return trouble;
  }
  if (plan.liger) {
    if (const std::optional<Error> trouble = liger_trouble(spec)) {
      return trouble;
    }
  }
  // Source: linkedin/Liger-Kernel 0.8, transformers/monkey_patch.py, which raises for Granite.
  if (plan.liger && plan.loss == LossKind::kFusedLinear && spec.scales_logits) {
    return Error::invalid_argument(
        "loss", "fused-linear with --liger for a model that scales its logits",
        "hf: Liger's fused loss does not scale logits", "leave out --loss");
  }
  if (const std::optional<Error> trouble = task_trouble(spec, plan)) {
    return trouble;
  }
  if (spec.architecture == Architecture::kCausalLm) {
    return std::nullopt;
  }
  if (plan.workload.padded_batch && spec.architecture != Architecture::kMaskedLm) {
    return Error::invalid_argument("padded", "is not supported for encoder-decoder models", {},
                                   "leave out --padded");
  }
  if (plan.loss != LossKind::kHf) {
    return Error::invalid_argument("loss", word_of(loss_words(), plan.loss),
                                   "hf: the other losses are those of causal language models",
                                   "leave out --loss");
  }
  return std::nullopt;
}

std::optional<Error> sharding_trouble(const ModelSpec& spec, const ParallelPlan& plan) {
  if (spec.recording && plan.quant) {
    return Error::invalid_argument("qlora",
                                   "is not supported with --fsdp or --zero for recorded models", {},
                                   "use --lora, or leave out --fsdp and --zero");
  }
  const bool copies =
      plan.lora && (spec.task != Task::kLanguage || !plan.lora->modules_to_save.empty());
  if (spec.recording && copies && spec.task != Task::kLanguage) {
    return Error::invalid_argument(
        "lora",
        "with --fsdp or --zero is not supported for a recorded model with a head that classifies, "
        "which PEFT copies and trains in full",
        {}, "leave out --fsdp and --zero (several GPUs then mean DDP), or leave out --lora");
  }
  if (spec.recording && copies) {
    return Error::invalid_argument("lora",
                                   "with copies of modules that are trained in full is not "
                                   "supported with --fsdp or --zero for recorded models",
                                   {}, "leave out --lora, or leave out --fsdp and --zero");
  }
  if (spec.architecture != Architecture::kCausalLm && plan.quant) {
    return Error::invalid_argument("qlora",
                                   "is not supported with --fsdp or --zero for encoders and "
                                   "encoder-decoder models",
                                   {}, "use --lora, or leave out --fsdp and --zero");
  }
  return std::nullopt;
}

}  // namespace headroom::ir::transformers
