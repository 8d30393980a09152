#pragma once

#include <cstdint>
#include <optional>

#include "runtimes/megatron/transformer_engine.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::megatron {

/// Sizes of one MoE layer on this rank.
struct ExpertSizes {
  std::int64_t tokens = 0;  ///< T, for this rank's part of the sequence.
  std::int64_t hidden = 0;
  std::int64_t experts = 0;  ///< E.
  std::int64_t local = 0;    ///< Experts of this rank.
  std::int64_t top_k = 0;
  std::int64_t ffn = 0;       ///< F of one expert on this rank.
  std::int64_t received = 0;  ///< Rows that this rank's experts receive.
  std::int64_t sent = 0;  ///< Rows that this rank sends: E*capacity, or T*top_k without dropping.
  std::optional<std::int64_t> capacity;  ///< Tokens that an expert accepts from one rank.
};

/// Source: megatron/core/transformer/moe/moe_utils.py, get_capacity.
[[nodiscard]] ExpertSizes expert_sizes(const Runner& run, std::int64_t tokens);

/// Probabilities [T, E], zero for experts to which a token is not routed, and the routing map.
struct Routing {
  torch::Tensor probabilities;
  torch::Tensor map;  ///< bool [T, E]
};

/// TopKRouter: chooses the experts of each token. Source: megatron/core/transformer/moe/router.py.
[[nodiscard]] Routing route(const Runner& run, const torch::Tensor& hidden,
                            const ExpertWeights& experts, const ExpertSizes& sizes);

}  // namespace headroom::ir::megatron
