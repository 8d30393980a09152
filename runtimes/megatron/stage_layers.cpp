#include "runtimes/megatron/stage_layers.h"

#include <algorithm>
#include <optional>

#include "runtimes/megatron/pipeline_layout.h"
#include "runtimes/megatron/plan.h"

namespace headroom::ir {
namespace {

std::optional<PipelineLayout> layout_of(const MegatronPlan& megatron) {
  if (megatron.pipeline_layout.empty()) {
    return std::nullopt;
  }
  Result<PipelineLayout> layout = parse_pipeline_layout(megatron.pipeline_layout);
  return layout ? std::optional(std::move(layout).value()) : std::nullopt;
}

/// Number of chunks of every stage.
std::int64_t chunks_of(const PipelineLayout& layout, const Mesh& mesh) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(layout.layers.size()) / mesh.pipeline);
}

}  // namespace

std::int64_t stage_stride(const ParallelPlan& plan) {
  return megatron_of(plan).pipeline_before_data
             ? plan.mesh.tensor * plan.mesh.context
             : std::max<std::int64_t>(plan.world / plan.mesh.pipeline, 1);
}

bool has_one_pipeline(const ModelSpec& model, const ParallelPlan& plan) {
  const std::int64_t cut = expert_tensor_of(plan.mesh);
  return !megatron_of(plan).pipeline_before_data || !model.moe || plan.mesh.pipeline == 1 ||
         cut * plan.mesh.expert == plan.mesh.tensor * plan.mesh.context;
}

bool is_interleaved(const ParallelPlan& plan) {
  const std::optional<PipelineLayout> layout = layout_of(megatron_of(plan));
  return plan.mesh.pipeline > 1 &&
         (layout ? chunks_of(*layout, plan.mesh) > 1 : megatron_of(plan).layers_per_chunk > 0);
}

void deal_evenly(MegatronPlan& megatron) {
  megatron.layers_per_chunk = megatron.first_stage_layers = megatron.last_stage_layers = 0;
  megatron.account_for_embedding = megatron.account_for_loss = false;
  megatron.pipeline_layout.clear();
}

std::int64_t even_stage_layers(const ParallelPlan& plan, std::int64_t layers) {
  const MegatronPlan& megatron = megatron_of(plan);
  if (!megatron.pipeline_layout.empty()) {
    return 0;
  }
  std::int64_t left = layers - megatron.first_stage_layers - megatron.last_stage_layers;
  left += (megatron.account_for_embedding ? 1 : 0) + (megatron.account_for_loss ? 1 : 0);
  std::int64_t stages = plan.mesh.pipeline;
  stages -= (megatron.first_stage_layers > 0 ? 1 : 0) + (megatron.last_stage_layers > 0 ? 1 : 0);
  return stages > 0 && left > 0 && left % stages == 0 ? left / stages : 0;
}

std::int64_t chunks_per_stage(const ParallelPlan& plan, std::int64_t layers) {
  const MegatronPlan& megatron = megatron_of(plan);
  if (const std::optional<PipelineLayout> layout = layout_of(megatron_of(plan))) {
    return chunks_of(*layout, plan.mesh);
  }
  if (megatron.layers_per_chunk <= 0) {
    return 1;
  }
  return std::max<std::int64_t>(1, even_stage_layers(plan, layers) / megatron.layers_per_chunk);
}

std::int64_t chunk_layer_count(const ParallelPlan& plan, std::int64_t layers,
                               const ChunkPlace& place) {
  const MegatronPlan& megatron = megatron_of(plan);
  if (const std::optional<PipelineLayout> layout = layout_of(megatron_of(plan))) {
    const auto index = static_cast<std::size_t>(place.chunk * plan.mesh.pipeline + place.stage);
    return index < layout->layers.size() ? layout->layers[index] : 0;
  }
  const std::int64_t chunks = chunks_per_stage(plan, layers);
  const bool first = place.stage == 0;
  const bool last = place.stage == plan.mesh.pipeline - 1;
  std::int64_t stage = even_stage_layers(plan, layers);
  if (first && megatron.first_stage_layers > 0) {
    stage = megatron.first_stage_layers;
  } else if (last && megatron.last_stage_layers > 0) {
    stage = megatron.last_stage_layers;
  }
  std::int64_t count = stage / chunks;
  count -= megatron.account_for_embedding && first && place.chunk == 0 ? 1 : 0;
  count -= megatron.account_for_loss && last && place.chunk == chunks - 1 ? 1 : 0;
  return count;
}

LayerSpan chunk_layers(const ParallelPlan& plan, std::int64_t layers, const ChunkPlace& place) {
  LayerSpan span{.first = 0, .count = chunk_layer_count(plan, layers, place)};
  for (std::int64_t chunk = 0; chunk <= place.chunk; ++chunk) {
    const std::int64_t stages = chunk == place.chunk ? place.stage : plan.mesh.pipeline;
    for (std::int64_t stage = 0; stage < stages; ++stage) {
      span.first += chunk_layer_count(plan, layers, {.stage = stage, .chunk = chunk});
    }
  }
  return span;
}

std::vector<StageLayers> layers_of_stages(const ModelSpec& model, const ParallelPlan& plan) {
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  std::vector<StageLayers> stages(static_cast<std::size_t>(plan.mesh.pipeline));
  for (std::int64_t stage = 0; stage < plan.mesh.pipeline; ++stage) {
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
