#include "runtimes/megatron/required_capability.h"

#include <array>

#include "runtimes/megatron/plan.h"

namespace headroom::ir::megatron {
namespace {

/// Sources: NVIDIA/TransformerEngine 2.11 transformer_engine/pytorch/utils.py, is_bf16_compatible
///          ("bf16 requires sm_80 or higher"); transformer_engine/pytorch/attention/
///          dot_product_attention/utils.py, get_attention_backend ("Disabling FusedAttention for
///          compute capability < sm80", FlashAttention likewise), after which
///          dot_product_attention.py raises where --attention-backend allows no other. Megatron's
///          own modules (--transformer-impl local) do not ask for a compute capability.
bool has_engine(const ParallelPlan& plan) {
  return megatron_of(plan).transformer_engine;
}

constexpr std::array<CapabilityRule, 2> kRules = {
    {{.option = "precision",
      .what = "bf16",
      .uses = [](const ParallelPlan& plan) { return has_engine(plan) && computes_in_bf16(plan); },
      .least = {8, 0},
      .words = "Transformer Engine: \"bf16 requires sm_80 or higher\"",
      .fix = "use --precision fp16"},
     {.option = "megatron",
      .what = "fused or flash attention",
      .uses =
          [](const ParallelPlan& plan) {
            return has_engine(plan) && megatron_of(plan).attention != MegatronAttention::kUnfused;
          },
      .least = {8, 0},
      .words = "Transformer Engine: \"No dot product attention backend is available for the "
               "provided inputs\"",
      .fix = "use --megatron attention=unfused"}}};

}  // namespace

std::span<const CapabilityRule> capability_rules() {
  return kRules;
}

bool has_fused_attention(const DeviceTraits& device) {
  return has_capability(device, kRules.back().least);
}

}  // namespace headroom::ir::megatron
