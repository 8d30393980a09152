#pragma once

#include <cstdint>
#include <vector>

#include "runtimes/megatron/transformer_engine.h"

namespace headroom::ir::megatron {

/// Whether an exchange comes before or after the kernel.
enum class Side : std::uint8_t {
  kBefore,  ///< From this rank's tokens with all heads to all tokens with this rank's heads.
  kAfter,   ///< The reverse.
};
/// Exchanges tokens for heads, or back, among the ranks that exchange heads.
/// Source: context_parallel.py, flash_attn_a2a_communicate.
[[nodiscard]] std::vector<torch::Tensor> exchange_heads(const Runner& run, Side side,
                                                        const std::vector<torch::Tensor>& inputs);
/// Sizes of the call between the exchanges: more tokens and a part of the heads.
[[nodiscard]] AttentionSizes exchanged_sizes(const AttentionSizes& sizes, std::int64_t ranks);
/// Attention in which ranks exchange tokens for heads, attend to whole sequences, and exchange
/// back.
/// Source: context_parallel.py, AttnFuncWithCPAndQKVOA2A.
[[nodiscard]] torch::Tensor exchanged_attention(const Runner& run, const QueryKeyValue& parts,
                                                const AttentionSizes& sizes);

}  // namespace headroom::ir::megatron
