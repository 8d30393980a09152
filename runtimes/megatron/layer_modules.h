#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model_ir/base/result.h"
#include "model_ir/graph/decoder.h"
#include "model_ir/graph/graph.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir::megatron {

/// The modules that Megatron-Core's layer specification uses for the operators of one layer: a norm
/// that is fused with the projection after it, one projection for queries, keys and values, one for
/// gate and up, and biases that are added together with dropout and residual.
/// Source: megatron/core/models/gpt/gpt_layer_specs.py, get_gpt_layer_with_transformer_engine_spec.
struct LayerModules {
  bool rms_norm = false;  ///< RMSNorm; otherwise LayerNorm, which has a bias.
  bool qkv_bias = false;
  bool output_bias = false;
  bool head_norms = false;  ///< q_layernorm and k_layernorm, over the head size.
  bool rope = false;
  bool gated = false;  ///< SwiGLU; otherwise GELU.
  bool mlp_bias = false;
  bool sparse = false;
  bool expert_bias = false;  ///< Biases of experts and router, with clamped quick GEGLU (gpt-oss).
  bool sinks = false;        ///< A learned logit per head takes part in the softmax.
  std::int64_t window = 0;   ///< Keys that a query sees; 0: all keys before it.
  double attention_dropout = 0;
  double hidden_dropout = 0;
};

/// Errors: kInvalidArgument naming an operator that the layer specification does not support.
[[nodiscard]] Result<LayerModules> layer_modules(const Graph& graph, const LayerRange& range);

/// The modules of every layer of `model`, derived from a graph that has one layer of each kind.
/// Errors: as above.
[[nodiscard]] Result<std::vector<LayerModules>> all_layer_modules(const ModelSpec& model,
                                                                  const BatchShape& batch);

}  // namespace headroom::ir::megatron
