#pragma once

#include "runtimes/megatron/transformer_engine.h"

namespace headroom::ir::megatron {

/// Ring attention: keys and values travel around the ranks that share a sequence. [T, heads*D] of
/// this rank's part. Source: context_parallel.py, AttnFuncWithCPAndKVP2P.
[[nodiscard]] torch::Tensor ring_attention(const Runner& run, const QueryKeyValue& parts,
                                           const AttentionSizes& sizes);

}  // namespace headroom::ir::megatron
