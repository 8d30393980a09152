#include "model_ir/runtime/transformers/support.h"

#include "model_ir/runtime/transformers/modeling.h"

#include "model_ir/runtime/transformers/expert_adapter.h"

namespace headroom::ir::transformers {

std::optional<Error> unsupported(const ModelSpec& spec, const ParallelPlan& plan) {
  if (plan.lora && (plan.lora->dora || plan.lora->dropout > 0) &&
      adapts_experts(spec, *plan.lora)) {
    return Error::invalid_argument("lora", "dropout or DoRA on experts or their router",
                                   "plain LoRA", "PEFT refuses both; name other targets");
  }
  if (plan.attention == AttentionKind::kFlash && only_eager(spec)) {
    return Error::invalid_argument("attention", "flash", "eager",
                                   "this family's code has no other attention");
  }
  if (spec.architecture == Architecture::kCausalLm) {
    return std::nullopt;
  }
  if (plan.padded_batch) {
    return Error::invalid_argument("padded", "padding in a model that is not causal",
                                   "batches without padding", "leave out padded");
  }
  if (plan.lora || plan.quant) {
    return Error::invalid_argument("lora", "adapters on a model that is not causal",
                                   "full training", "leave out lora");
  }
  if (plan.loss != LossKind::kHf) {
    return Error::invalid_argument("loss", "chunked or fused", "hf",
                                   "the other losses are those of causal models");
  }
  if (spec.norm == NormKind::kRmsT5 && plan.precision == Precision::kFp16) {
    return Error::invalid_argument("precision", "fp16", "bf16, fp32 or autocast",
                                   "T5's clamping of fp16 hidden states is not modelled");
  }
  return std::nullopt;
}

}  // namespace headroom::ir::transformers
