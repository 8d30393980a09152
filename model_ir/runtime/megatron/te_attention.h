#pragma once

#include "model_ir/runtime/megatron/transformer_engine.h"

/// The attention backends of Transformer Engine that have a file of their own.
namespace headroom::ir::megatron {

/// FlashAttention 2, causal: [T, heads*D].
[[nodiscard]] torch::Tensor flash_attention(const Runner& run, const QueryKeyValue& qkv,
                                            const AttentionSizes& sizes);

}  // namespace headroom::ir::megatron
