#include "model_ir/plan/megatron_stages.h"

#include <algorithm>

namespace headroom::ir {

std::int64_t stage_stride(const MegatronPlan& plan, std::int64_t world) {
  return plan.pipeline_before_data ? plan.tensor * plan.context
                                   : std::max<std::int64_t>(world / plan.pipeline, 1);
}

bool has_one_pipeline(const ModelSpec& model, const MegatronPlan& plan) {
  const std::int64_t cut = plan.expert_tensor > 0 ? plan.expert_tensor : plan.tensor;
  return !plan.pipeline_before_data || !model.moe || plan.pipeline == 1 ||
         cut * plan.expert == plan.tensor * plan.context;
}

std::int64_t even_stage_layers(const MegatronPlan& plan, std::int64_t layers) {
  std::int64_t left = layers - plan.first_stage_layers - plan.last_stage_layers;
  left += (plan.account_for_embedding ? 1 : 0) + (plan.account_for_loss ? 1 : 0);
  std::int64_t stages = plan.pipeline;
  stages -= (plan.first_stage_layers > 0 ? 1 : 0) + (plan.last_stage_layers > 0 ? 1 : 0);
  return stages > 0 && left > 0 && left % stages == 0 ? left / stages : 0;
}

std::int64_t chunks_per_stage(const MegatronPlan& plan, std::int64_t layers) {
  if (plan.layers_per_chunk <= 0) {
    return 1;
  }
  return std::max<std::int64_t>(1, even_stage_layers(plan, layers) / plan.layers_per_chunk);
}

std::int64_t chunk_layer_count(const MegatronPlan& plan, std::int64_t layers,
                               const ChunkPlace& place) {
  const std::int64_t chunks = chunks_per_stage(plan, layers);
  const bool first = place.stage == 0;
  const bool last = place.stage == plan.pipeline - 1;
  std::int64_t stage = even_stage_layers(plan, layers);
  if (first && plan.first_stage_layers > 0) {
    stage = plan.first_stage_layers;
  } else if (last && plan.last_stage_layers > 0) {
    stage = plan.last_stage_layers;
  }
  std::int64_t count = stage / chunks;
  count -= plan.account_for_embedding && first && place.chunk == 0 ? 1 : 0;
  count -= plan.account_for_loss && last && place.chunk == chunks - 1 ? 1 : 0;
  return count;
}

LayerSpan chunk_layers(const MegatronPlan& plan, std::int64_t layers, const ChunkPlace& place) {
  LayerSpan span{.first = 0, .count = chunk_layer_count(plan, layers, place)};
  for (std::int64_t chunk = 0; chunk <= place.chunk; ++chunk) {
    const std::int64_t stages = chunk == place.chunk ? place.stage : plan.pipeline;
    for (std::int64_t stage = 0; stage < stages; ++stage) {
      span.first += chunk_layer_count(plan, layers, {.stage = stage, .chunk = chunk});
    }
  }
  return span;
}

}  // namespace headroom::ir
