#pragma once

#include "runtimes/megatron/transformer_engine.h"
#include "runtimes/torch/eager.h"

/// The operators before and after the layers. Source: megatron/core/tensor_parallel.
namespace headroom::ir::megatron {

/// LanguageModelEmbedding: ids [B, S/CP] -> rows of the residual stream.
/// Source: models/common/embeddings/language_model_embedding.py; tensor_parallel/layers.py,
/// VocabParallelEmbedding.
[[nodiscard]] torch::Tensor embed(const Runner& run, const Chunk& chunk, const torch::Tensor& ids,
                                  const torch::Tensor& positions);

/// ColumnParallelLinear without a bias: logits [T, V/TP] in the type of the arithmetic.
/// Source: tensor_parallel/layers.py, LinearWithGradAccumulationAndAsyncCommunication.
[[nodiscard]] torch::Tensor output_layer(const Runner& run, const torch::Tensor& hidden,
                                         const torch::Tensor& weight);

/// compute_language_model_loss: the loss of every token, fp32 [T].
/// Source: tensor_parallel/cross_entropy.py, fusions/fused_cross_entropy.py.
[[nodiscard]] torch::Tensor token_losses(const Runner& run, const torch::Tensor& logits,
                                         const torch::Tensor& labels);

}  // namespace headroom::ir::megatron
