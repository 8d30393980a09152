#pragma once

#include "runtimes/megatron/transformer_engine.h"

namespace headroom::ir::megatron {

/// UnfusedDotProductAttention, or Megatron-Core's DotProductAttention, on which it is based:
/// [T, heads*value_dim].
/// Source: transformer_engine/pytorch/attention/dot_product_attention/backends.py;
///         megatron/core/transformer/dot_product_attention.py.
[[nodiscard]] torch::Tensor unfused_attention(const Runner& run, const QueryKeyValue& qkv,
                                              const AttentionSizes& sizes);

}  // namespace headroom::ir::megatron
