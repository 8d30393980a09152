#pragma once

#include "runtimes/megatron/layer.h"
#include "runtimes/megatron/router.h"

/// Pieces of a mixture of experts that its token dispatchers share.
/// Source: megatron/core/transformer/moe.
namespace headroom::ir::megatron {

/// A tensor that comes back from `forward` with `rows` rows; the gradient goes the other way.
/// Source: megatron/core/tensor_parallel/mappings.py.
[[nodiscard]] torch::Tensor exchange(const Runner& run, const torch::Tensor& input,
                                     std::int64_t rows, const CollectiveShape& forward,
                                     CollectiveKind backward);

/// The sum over a token's experts, [sizes.tokens, H]; probabilities have been applied by them.
[[nodiscard]] torch::Tensor unpermute(const Runner& run, const torch::Tensor& input,
                                      const torch::Tensor& mapping, const ExpertSizes& sizes);

/// The experts of this rank, on tokens in their order: TEGroupedMLP or SequentialMLP.
[[nodiscard]] torch::Tensor compute_experts(const Runner& run, const ExpertWeights& weights,
                                            const torch::Tensor& tokens,
                                            const torch::Tensor& probabilities);

/// MoEAllGatherTokenDispatcher around the experts: every rank has all tokens and takes those that
/// its experts are chosen for. Source: token_dispatcher.py.
[[nodiscard]] torch::Tensor dispatch_gathered(const Runner& run, const LayerWeights& layer,
                                              const torch::Tensor& normed,
                                              const ExpertSizes& sizes);

/// MoEFlexTokenDispatcher with HybridEP around the experts: one exchange sends a token once to each
/// rank and node that has one of its experts, and leaves it in their order.
/// Source: token_dispatcher.py, _HybridEPManager; fused_a2a.py; deepseek-ai/DeepEP, branch
/// hybrid-ep.
[[nodiscard]] torch::Tensor dispatch_hybrid(const Runner& run, const LayerWeights& layer,
                                            const torch::Tensor& normed, ExpertSizes sizes);

}  // namespace headroom::ir::megatron
