#pragma once

#include <cstdint>
#include <optional>

#include "model_ir/spec/model_spec.h"

namespace headroom::ir {

/// Parameters of one block, by part.
struct LayerParameters {
  std::int64_t attention = 0;        ///< Projections, biases, QK norms and sinks.
  std::int64_t cross_attention = 0;  ///< The decoder's in two-stack models; norm counted in norms.
  std::int64_t mlp = 0;              ///< Dense MLP; or router, all experts and shared expert.
  std::int64_t norms = 0;
  std::int64_t idle_experts = 0;  ///< The share of `mlp` that one token does not use.

  [[nodiscard]] std::int64_t total() const { return attention + cross_attention + mlp + norms; }
  friend bool operator==(const LayerParameters&, const LayerParameters&) = default;
};

/// Parameters of a model, by part. Buffers (rotary tables, correction biases) are not parameters.
struct ParameterCount {
  std::int64_t token_embedding = 0;     ///< V * embedding_dim, once if the head is tied to it.
  std::int64_t position_embedding = 0;  ///< Learned positions, token types, relative biases.
  std::int64_t embedding_other = 0;     ///< Norm after the embedding; OPT's two projections.
  std::int64_t layers = 0;              ///< All blocks of all stacks.
  std::int64_t final_norm = 0;
  std::int64_t head = 0;  ///< Output matrix unless tied, its bias, BERT's transform.
  std::int64_t idle_experts = 0;
  std::int64_t idle_modules = 0;  ///< In `layers` to `head`: a tower in a batch of text alone.

  [[nodiscard]] std::int64_t total() const {
    return token_embedding + position_embedding + embedding_other + layers + final_norm + head;
  }
  /// Parameters used for one token: all except the experts that the router does not choose, and
  /// modules that do not run.
  [[nodiscard]] std::int64_t active() const { return total() - idle_experts - idle_modules; }
  friend bool operator==(const ParameterCount&, const ParameterCount&) = default;
};

/// The stack that a block belongs to.
enum class Stack { kDecoder, kEncoder };

/// Parameters of a block like `layer`.
///
/// Model:   closed forms over the dimensions; nothing is built. For a recording, its largest layer.
/// BERT's blocks and those of
///          decoder-only models count as `kDecoder`.
[[nodiscard]] LayerParameters layer_parameters(const ModelSpec& model, const LayerSpec& layer,
                                               Stack stack = Stack::kDecoder);

/// Parameters of the largest block of any stack. Requires the dimensions to be within the bounds
/// of the readers.
[[nodiscard]] std::int64_t largest_layer(const ModelSpec& model);

/// Parameters of the whole model, tied weights once.
///
/// Source:  huggingface/transformers 5.17.0, src/transformers/models/*/modeling_*.py: the
///          parameters that the constructors register, for *ForCausalLM, BertForMaskedLM and
///          T5ForConditionalGeneration.
[[nodiscard]] ParameterCount count_parameters(const ModelSpec& model);

}  // namespace headroom::ir
