#pragma once

#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/transformer_engine.h"
#include "runtimes/torch/eager.h"

namespace headroom::ir::megatron {

/// Inputs that all layers of a forward share.
struct LayerInput {
  torch::Tensor mask;    ///< bool [B, 1, S/CP, S]; undefined if the script makes none.
  torch::Tensor angles;  ///< Rotary table.
};

/// Inputs of one micro-batch for its tokens.
struct TokenInput {
  torch::Tensor ids;  ///< int64 [B, S]
  torch::Tensor positions;
  torch::Tensor labels;
  torch::Tensor loss_mask;  ///< fp32 [B, S]
};

/// The losses [T] for the output of the last norm, after those of the multi-token prediction
/// layers. Errors: none; requires `chunk.predictions`.
[[nodiscard]] torch::Tensor losses_with_predictions(const Runner& run, const Chunk& chunk,
                                                    torch::Tensor hidden, const TokenInput& tokens,
                                                    const LayerInput& input);

/// Runs all layers of a chunk, with recomputation if the plan says so: TransformerBlock without its
/// final norm.
/// Source: megatron/core/transformer/{transformer_block,transformer_layer,attention,mlp}.py.
[[nodiscard]] torch::Tensor run_layers(const Runner& run, const Chunk& chunk, torch::Tensor hidden,
                                       const LayerInput& input);

/// TransformerLayer.forward.
[[nodiscard]] torch::Tensor run_layer(const Runner& run, const LayerWeights& layer,
                                      const torch::Tensor& hidden, const LayerInput& input);

/// TransformerLayer._forward_attention: the residual stream with attention added to it.
[[nodiscard]] torch::Tensor attention_half(const Runner& run, const LayerWeights& layer,
                                           const torch::Tensor& hidden, const LayerInput& input);
/// TransformerLayer._forward_mlp: the residual stream with the MLP or the experts added to it.
[[nodiscard]] torch::Tensor mlp_half(const Runner& run, const LayerWeights& layer,
                                     const torch::Tensor& middle);
/// Allocates and frees the one-element tensor that make_viewless_tensor makes for a view.
void make_viewless(const Runner& run);
/// bias_dropout_add of the second half: adds `output` to the residual stream.
[[nodiscard]] torch::Tensor add_second_half(const Runner& run, const LayerWeights& layer,
                                            const torch::Tensor& output,
                                            const torch::Tensor& middle);

/// MultiLatentAttention on its norm's output.
/// Source: megatron/core/transformer/multi_latent_attention.py.
[[nodiscard]] torch::Tensor latent_attention(const Runner& run, const LayerWeights& layer,
                                             const torch::Tensor& normed, const LayerInput& input);

/// Rotary embedding of all dimensions of queries or keys without a fused kernel (--no-rope-fusion).
[[nodiscard]] torch::Tensor rotate_unfused(const Runner& run, const torch::Tensor& input,
                                           const torch::Tensor& angles);

/// MoELayer after its norm. Source: megatron/core/transformer/moe.
[[nodiscard]] torch::Tensor expert_layer(const Runner& run, const LayerWeights& layer,
                                         const torch::Tensor& normed);

/// The activation between an MLP's two products, including the first product's bias.
[[nodiscard]] torch::Tensor activate(const Runner& run, const LayerModules& modules,
                                     const torch::Tensor& input, const torch::Tensor& bias);

/// Whether backward recomputes a module. Nothing is recomputed if gradients are disabled.
[[nodiscard]] bool recomputes(const Runner& run, bool MegatronModules::*module);

/// Core attention. Backward recomputes it if the plan says so.
[[nodiscard]] torch::Tensor core_attention(const Runner& run, const QueryKeyValue& qkv,
                                           const torch::Tensor& mask, const AttentionSizes& sizes);

}  // namespace headroom::ir::megatron
