#pragma once

#include <cstdint>
#include <vector>

#include "model_ir/plan/device_work.h"
#include "runtimes/megatron/streams.h"
#include "runtimes/megatron/transformer_engine.h"

/// The attention backends of Transformer Engine that have a file of their own.
namespace headroom::ir::megatron {

/// Tokens per sequence of the two sides of an attention call.
struct Extent {
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  bool causal = true;
};
/// The forward kernel of such a call, as work.
[[nodiscard]] AttentionShape kernel_of(const Runner& run, const AttentionSizes& sizes,
                                       const Extent& extent);

/// What a forward kernel gives.
struct KernelOutput {
  torch::Tensor output;
  torch::Tensor statistics;  ///< Log-sum-exp, fp32 [B, A, S, 1].
  torch::Tensor random;      ///< Seed and offset.
};

[[nodiscard]] bool is_flash(const Runner& run);
/// The kernels of the backend that runs, fused or flash, on `extent` of one sequence: forward, and
/// the gradients of queries, keys and values.
[[nodiscard]] KernelOutput kernel_forward(const Runner& run, const AttentionSizes& sizes,
                                          const Extent& extent);
[[nodiscard]] std::vector<torch::Tensor> kernel_backward(const Runner& run,
                                                         const AttentionSizes& sizes,
                                                         const Extent& extent);

/// Keys and values travel around the ranks that share a sequence: [T, heads*D] of this rank's part.
/// Source: context_parallel.py, AttnFuncWithCPAndKVP2P.
[[nodiscard]] torch::Tensor ring_attention(const Runner& run, const QueryKeyValue& parts,
                                           const AttentionSizes& sizes);
/// Which side of the kernel an exchange is on.
enum class Side : std::uint8_t {
  kBefore,  ///< This rank's tokens of all heads come to all tokens of its heads.
  kAfter,   ///< The other way.
};
/// Tokens for heads, or back, among the ranks that exchange. Source: context_parallel.py,
/// flash_attn_a2a_communicate.
[[nodiscard]] std::vector<torch::Tensor> exchange_heads(const Runner& run, Side side,
                                                        const std::vector<torch::Tensor>& inputs);
/// The call that a rank makes between exchanges: more tokens, a part of the heads.
[[nodiscard]] AttentionSizes exchanged_sizes(const AttentionSizes& sizes, std::int64_t ranks);
/// Ranks exchange tokens for heads, attend to whole sequences, and exchange back.
/// Source: context_parallel.py, AttnFuncWithCPAndQKVOA2A.
[[nodiscard]] torch::Tensor exchanged_attention(const Runner& run, const QueryKeyValue& parts,
                                                const AttentionSizes& sizes);

/// flash-attn 2 on `extent` of one sequence: its forward, and the gradients of queries, keys and
/// values.
[[nodiscard]] KernelOutput flash_forward(const Runner& run, const AttentionSizes& sizes,
                                         const Extent& extent);
[[nodiscard]] std::vector<torch::Tensor> flash_backward(const Runner& run,
                                                        const AttentionSizes& sizes,
                                                        const Extent& extent);
/// Queries, keys and values with each sequence in one piece, as flash-attn takes them: copies of
/// views, and of everything but a single sequence.
[[nodiscard]] QueryKeyValue by_sequence(const Runner& run, const QueryKeyValue& qkv,
                                        const AttentionSizes& sizes);
/// FlashAttention 2, causal: [T, heads*D].
[[nodiscard]] torch::Tensor flash_attention(const Runner& run, const QueryKeyValue& qkv,
                                            const AttentionSizes& sizes);

}  // namespace headroom::ir::megatron
