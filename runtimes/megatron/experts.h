#pragma once

#include "runtimes/megatron/layer.h"
#include "runtimes/megatron/router.h"

/// Parts of a mixture of experts that its token dispatchers share.
/// Source: megatron/core/transformer/moe.
namespace headroom::ir::megatron {

/// Runs `forward`, whose result has `rows` rows. Backward sends the gradient in the opposite
/// direction.
/// Source: megatron/core/tensor_parallel/mappings.py.
[[nodiscard]] torch::Tensor exchange(const Runner& run, const torch::Tensor& input,
                                     std::int64_t rows, const CollectiveShape& forward,
                                     CollectiveKind backward);

/// Sums the results of each token's experts: [sizes.tokens, H]. The experts have already applied
/// the probabilities.
[[nodiscard]] torch::Tensor unpermute(const Runner& run, const torch::Tensor& input,
                                      const torch::Tensor& mapping, const ExpertSizes& sizes);

/// Runs the experts of this rank on tokens sorted by expert: TEGroupedMLP or SequentialMLP.
[[nodiscard]] torch::Tensor compute_experts(const Runner& run, const ExpertWeights& weights,
                                            const torch::Tensor& tokens,
                                            const torch::Tensor& probabilities);

/// Tokens on their way to the experts, with their probabilities.
struct RoutedTokens {
  torch::Tensor tokens;         ///< [rows, H]
  torch::Tensor probabilities;  ///< [rows]
};

/// The steps of MoELayer.forward, which a schedule that overlaps communication runs one by one:
/// shared experts (undefined if there are none), router and permutation, the all-to-all before the
/// experts, the experts, and the all-to-all behind them with the sum of their results and `shared`.
/// Source: megatron/core/transformer/moe/moe_layer.py.
[[nodiscard]] torch::Tensor shared_output(const Runner& run, const LayerWeights& layer,
                                          const torch::Tensor& normed);
[[nodiscard]] RoutedTokens route_tokens(const Runner& run, const LayerWeights& layer,
                                        const torch::Tensor& normed);
[[nodiscard]] RoutedTokens send_tokens(const Runner& run, const LayerWeights& layer,
                                       const RoutedTokens& routed);
[[nodiscard]] torch::Tensor process_tokens(const Runner& run, const LayerWeights& layer,
                                           const RoutedTokens& received);
[[nodiscard]] torch::Tensor return_tokens(const Runner& run, const LayerWeights& layer,
                                          const torch::Tensor& output, const torch::Tensor& shared);

/// MoEAllGatherTokenDispatcher around the experts. Every rank gathers all tokens and selects those
/// that are routed to its experts. Source: token_dispatcher.py.
[[nodiscard]] torch::Tensor dispatch_gathered(const Runner& run, const LayerWeights& layer,
                                              const torch::Tensor& normed,
                                              const ExpertSizes& sizes);

/// MoEFlexTokenDispatcher with HybridEP around the experts. One exchange sends each token once to
/// every rank and node that has one of its experts, and leaves the tokens sorted by expert.
/// Source: token_dispatcher.py, _HybridEPManager; fused_a2a.py; deepseek-ai/DeepEP, branch
///         hybrid-ep.
[[nodiscard]] torch::Tensor dispatch_hybrid(const Runner& run, const LayerWeights& layer,
                                            const torch::Tensor& normed, const ExpertSizes& sizes);
/// Its steps: `route_tokens`, `send_tokens` and the exchange of `return_tokens`.
[[nodiscard]] RoutedTokens route_hybrid(const Runner& run, const LayerWeights& layer,
                                        const torch::Tensor& normed, const ExpertSizes& sizes);
[[nodiscard]] RoutedTokens send_hybrid(const Runner& run, const LayerWeights& layer,
                                       const RoutedTokens& routed, const ExpertSizes& sizes);
[[nodiscard]] torch::Tensor return_hybrid(const Runner& run, const LayerWeights& layer,
                                          const torch::Tensor& output, const ExpertSizes& sizes);

}  // namespace headroom::ir::megatron
