#pragma once

#include "runtimes/interface/runs/published_keys.h"
#include "runtimes/megatron/measured_runs.h"
#include "runtimes/megatron/plan.h"

namespace headroom::ir::megatron {

/// Parts of layers that a run has in CUDA graphs.
struct GraphedParts {
  bool attention = false;  ///< Scope `attn`.
  bool router = false;     ///< Scope `moe_router`, with the norm before it.
};

/// Adds the operators of `parts` to the conditions of a run. Scope `moe_preprocess` contains only
/// views and casts of the router's output.
/// Source: NVIDIA/Megatron-LM megatron/core/transformer/transformer_layer.py, the scopes of CUDA
///         graphs.
void graph_layer_parts(GraphedParts parts, RunConditions& conditions);

/// Overlaps all-to-alls with other micro-batches. Recipes then delay the gradients of weights,
/// which excludes the overlap of TP communication. Source: NVIDIA-NeMo/Megatron-Bridge v0.4.0,
/// scripts/performance/utils/overrides.py, _set_moe_a2a_overlap_overrides;
/// configs/qwen/qwen3_llm_pretrain.py.
void overlap_exchange(MegatronPlan& plan);

/// Applies what the presets of Megatron-Bridge's releases set and its tables do not state: CUDA
/// graphs, the dispatcher of tokens, the overlap of its exchange, and fused experts. The plan and
/// the model of `run` are complete.
void apply_bridge_preset(RunReader& row, PublishedRun& run);

}  // namespace headroom::ir::megatron
