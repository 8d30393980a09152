#pragma once

#include <cstdint>
#include <vector>

#include "model_ir/plan/layer_span.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/interface/pipeline.h"
#include "runtimes/megatron/plan.h"

/// How Megatron assigns the layers of a model to pipeline stages and their chunks.
/// Source: megatron/core/transformer/transformer_block.py, get_num_layers_to_build;
///         megatron/core/transformer/transformer_layer.py, get_transformer_layer_offset.
namespace headroom::ir {

/// A stage of the pipeline and one of its chunks.
struct ChunkPlace {
  std::int64_t stage = 0;
  std::int64_t chunk = 0;
};

/// Distance in ranks between the stages of a pipeline. The ranks of other data-parallel replicas
/// lie between the stages or after the last one.
/// Source: megatron/core/parallel_state.py, RankGenerator.
[[nodiscard]] std::int64_t stage_stride(const ParallelPlan& plan);

/// Whether the grids of dense layers and of experts put the same ranks into each pipeline.
/// Source: megatron/core/parallel_state.py, initialize_model_parallel.
[[nodiscard]] bool has_one_pipeline(const ModelSpec& model, const ParallelPlan& plan);

/// Whether stages hold several chunks, through which micro-batches pass in turn.
[[nodiscard]] bool is_interleaved(const ParallelPlan& plan);
/// Removes all options that assign layers to stages, so that stages are even and have one chunk.
void deal_evenly(MegatronPlan& megatron);

/// Layers of a stage that is neither first nor last, for a model with `layers` layers. The
/// embedding and the loss count as layers if the plan says so. It is 0 if the layers cannot be
/// divided evenly, or if a layout assigns layers to every chunk.
[[nodiscard]] std::int64_t even_stage_layers(const ParallelPlan& plan, std::int64_t layers);
/// Number of chunks of every stage.
[[nodiscard]] std::int64_t chunks_per_stage(const ParallelPlan& plan, std::int64_t layers);
/// The layers of each stage.
[[nodiscard]] std::vector<StageLayers> layers_of_stages(const ModelSpec& model,
                                                        const ParallelPlan& plan);
/// The number of layers of one chunk.
[[nodiscard]] std::int64_t chunk_layer_count(const ParallelPlan& plan, std::int64_t layers,
                                             const ChunkPlace& place);
/// The layers of one chunk.
[[nodiscard]] LayerSpan chunk_layers(const ParallelPlan& plan, std::int64_t layers,
                                     const ChunkPlace& place);

/// Lets one micro-batch run forward while another runs backward (`overlap_expert_exchange`), which
/// excludes shared experts beside the dispatcher.
inline void run_micro_batches_together(MegatronPlan& megatron) {
  megatron.overlap_expert_exchange = true;
  megatron.shared_expert_overlap = false;
}

}  // namespace headroom::ir
