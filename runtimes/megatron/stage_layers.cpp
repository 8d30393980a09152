#include "runtimes/megatron/stage_layers.h"

#include <algorithm>
#include <optional>

#include "runtimes/megatron/pipeline_layout.h"
#include "runtimes/megatron/plan.h"

namespace headroom::ir {
namespace {

std::optional<PipelineLayout> layout_of(const MegatronPlan& plan) {
  if (plan.pipeline_layout.empty()) {
    return std::nullopt;
  }
  Result<PipelineLayout> layout = parse_pipeline_layout(plan.pipeline_layout);
  return layout ? std::optional(std::move(layout).value()) : std::nullopt;
}

/// Number of chunks of every stage.
std::int64_t chunks_of(const PipelineLayout& layout, const MegatronPlan& plan) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(layout.layers.size()) / plan.pipeline);
}

}  // namespace

std::int64_t stage_stride(const MegatronPlan& plan, std::int64_t world) {
  return plan.pipeline_before_data ? plan.tensor * plan.context
                                   : std::max<std::int64_t>(world / plan.pipeline, 1);
}

bool has_one_pipeline(const ModelSpec& model, const MegatronPlan& plan) {
  const std::int64_t cut = plan.expert_tensor > 0 ? plan.expert_tensor : plan.tensor;
  return !plan.pipeline_before_data || !model.moe || plan.pipeline == 1 ||
         cut * plan.expert == plan.tensor * plan.context;
}

bool is_interleaved(const MegatronPlan& plan) {
  const std::optional<PipelineLayout> layout = layout_of(plan);
  return plan.pipeline > 1 && (layout ? chunks_of(*layout, plan) > 1 : plan.layers_per_chunk > 0);
}

void deal_evenly(MegatronPlan& plan) {
  plan.layers_per_chunk = plan.first_stage_layers = plan.last_stage_layers = 0;
  plan.account_for_embedding = plan.account_for_loss = false;
  plan.pipeline_layout.clear();
}

std::int64_t even_stage_layers(const MegatronPlan& plan, std::int64_t layers) {
  if (!plan.pipeline_layout.empty()) {
    return 0;
  }
  std::int64_t left = layers - plan.first_stage_layers - plan.last_stage_layers;
  left += (plan.account_for_embedding ? 1 : 0) + (plan.account_for_loss ? 1 : 0);
  std::int64_t stages = plan.pipeline;
  stages -= (plan.first_stage_layers > 0 ? 1 : 0) + (plan.last_stage_layers > 0 ? 1 : 0);
  return stages > 0 && left > 0 && left % stages == 0 ? left / stages : 0;
}

std::int64_t chunks_per_stage(const MegatronPlan& plan, std::int64_t layers) {
  if (const std::optional<PipelineLayout> layout = layout_of(plan)) {
    return chunks_of(*layout, plan);
  }
  if (plan.layers_per_chunk <= 0) {
    return 1;
  }
  return std::max<std::int64_t>(1, even_stage_layers(plan, layers) / plan.layers_per_chunk);
}

std::int64_t chunk_layer_count(const MegatronPlan& plan, std::int64_t layers,
                               const ChunkPlace& place) {
  if (const std::optional<PipelineLayout> layout = layout_of(plan)) {
    const auto index = static_cast<std::size_t>(place.chunk * plan.pipeline + place.stage);
    return index < layout->layers.size() ? layout->layers[index] : 0;
  }
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

std::vector<StageLayers> layers_of_stages(const ModelSpec& model, const MegatronPlan& plan) {
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  std::vector<StageLayers> stages(static_cast<std::size_t>(plan.pipeline));
  for (std::int64_t stage = 0; stage < plan.pipeline; ++stage) {
    StageLayers& own = stages[static_cast<std::size_t>(stage)];
    for (std::int64_t chunk = 0; chunk < chunks_per_stage(plan, layers); ++chunk) {
      const LayerSpan span = chunk_layers(plan, layers, {.stage = stage, .chunk = chunk});
      own.all += span.count;
      for (std::int64_t layer = span.first; layer < span.first + span.count; ++layer) {
        own.sparse += model.layers[static_cast<std::size_t>(layer)].moe ? 1 : 0;
      }
    }
  }
  return stages;
}

}  // namespace headroom::ir
