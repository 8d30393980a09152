#include "runtimes/megatron/execution.h"

#include <cstddef>
#include <cstdint>

#include "runtimes/megatron/options.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/stage_layers.h"

namespace headroom::ir::megatron {
namespace {

/// Recomputation of a layer that is the `place`-th of its stage.
RecomputedParts parts_of(const MegatronPlan& megatron, std::int64_t place) {
  const MegatronModules modules = recomputed_modules(megatron);
  switch (megatron.recompute) {
    case MegatronRecompute::kNone:
      return {};
    case MegatronRecompute::kSelective:
      return {
          .layer = false, .attention = modules.core_attention, .mlp = modules.mlp || modules.moe};
    case MegatronRecompute::kFullUniform:
      return {.layer = true};
    case MegatronRecompute::kFullBlock:
      return {.layer = place < megatron.recompute_layers};
  }
  return {};
}

void add_beyond(PlanExecution& execution, const MegatronPlan& megatron) {
  const MegatronModules modules = recomputed_modules(megatron);
  beyond_if(execution, megatron.layers_per_chunk > 0, "interleaved pipeline stages");
  beyond_if(execution,
            megatron.first_stage_layers > 0 || megatron.last_stage_layers > 0 ||
                !megatron.pipeline_layout.empty() || megatron.account_for_embedding ||
                megatron.account_for_loss,
            "pipeline stages with layers of their own choice");
  beyond_if(execution,
            modules.norms || modules.moe_activation || modules.latent_up || modules.shared_experts,
            "recomputation of modules other than core_attn, mlp and moe");
  beyond_if(execution,
            megatron.recompute == MegatronRecompute::kFullUniform && megatron.recompute_layers > 1,
            "recomputation of several layers at once");
  beyond_if(execution,
            megatron.offloaded_layers > 0 || megatron.offload_modules != MegatronOffload{},
            "activations of some layers or modules on the host");
  beyond_if(execution, megatron.optimizer_offload > 0 && megatron.optimizer_offload < 1,
            "optimizer states of which a share is on the host");
  beyond_if(execution,
            megatron.fp8 != MegatronFp8::kNone && megatron.fp8 != MegatronFp8::kTensorwise,
            "linear layers in 8 bits with delayed scaling or scales of blocks");
  beyond_if(execution, megatron.fp8_parameters, "parameters in 8 bits");
  beyond_if(execution, megatron.mtp_layers > 0, "multi-token prediction");
  beyond_if(execution, megatron.optimizer_instances > 1, "several distributed optimizers");
  beyond_if(execution, megatron.capacity_factor.has_value(), "experts with a capacity");
  beyond_if(execution, megatron.pipeline_before_data, "the rank order tp-cp-ep-pp-dp");
}

}  // namespace

PlanExecution execution(const ModelSpec& model, const ParallelPlan& plan) {
  PlanExecution execution = common_execution(model, plan);
  if (!has_megatron(plan)) {
    return execution;
  }
  const MegatronPlan& megatron = megatron_of(plan);
  execution.zero_stage = megatron.distributed_optimizer ? 1 : 0;
  execution.states_on_host = megatron.optimizer_offload > 0;
  execution.sequence_parallel = megatron.sequence_parallel;
  if (megatron.fp32_gradients && plan.precision == Precision::kBf16Master) {
    execution.gradient_dtype = DType::kFp32;
  }
  execution.fp8_products = megatron.fp8 == MegatronFp8::kTensorwise;
  if (megatron.bf16_moments) {
    execution.state_dtype = DType::kBf16;
  }
  const auto layers = static_cast<std::int64_t>(execution.layers.size());
  const std::int64_t of_stage = even_stage_layers(plan, layers);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    RecomputedParts& parts = execution.layers[static_cast<std::size_t>(layer)];
    parts = parts_of(megatron, of_stage > 0 ? layer % of_stage : layer);
    parts.on_host = layer < megatron.offloaded_layers;
  }
  add_beyond(execution, megatron);
  return execution;
}

}  // namespace headroom::ir::megatron
