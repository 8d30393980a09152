#pragma once

#include <cstdint>
#include <vector>

#include "model_ir/plan/device_work.h"
#include "runtimes/megatron/streams.h"
#include "runtimes/megatron/transformer_engine.h"

/// Attention backends of Transformer Engine that have files of their own.
namespace headroom::ir::megatron {

/// Tokens per sequence of the queries and of the keys in an attention call.
struct Extent {
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  bool causal = true;
};
/// The forward kernel of such a call, as a work item.
[[nodiscard]] AttentionShape kernel_of(const Runner& run, const AttentionSizes& sizes,
                                       const Extent& extent);

/// Results of a forward kernel.
struct KernelOutput {
  torch::Tensor output;
  torch::Tensor statistics;  ///< Log-sum-exp, fp32 [B, A, S, 1].
  torch::Tensor random;      ///< Random seed and offset.
};

[[nodiscard]] bool is_flash(const Runner& run);
/// The kernels of the chosen backend, fused or flash, on `extent` of one sequence: the forward, and
/// the gradients of queries, keys and values.
[[nodiscard]] KernelOutput kernel_forward(const Runner& run, const AttentionSizes& sizes,
                                          const Extent& extent);
[[nodiscard]] std::vector<torch::Tensor> kernel_backward(const Runner& run,
                                                         const AttentionSizes& sizes,
                                                         const Extent& extent);

/// Ring attention: keys and values travel around the ranks that share a sequence. [T, heads*D] of
/// this rank's part. Source: context_parallel.py, AttnFuncWithCPAndKVP2P.
[[nodiscard]] torch::Tensor ring_attention(const Runner& run, const QueryKeyValue& parts,
                                           const AttentionSizes& sizes);
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

/// flash-attn 2 on `extent` of one sequence: the forward, and the gradients of queries, keys and
/// values.
[[nodiscard]] KernelOutput flash_forward(const Runner& run, const AttentionSizes& sizes,
                                         const Extent& extent);
[[nodiscard]] std::vector<torch::Tensor> flash_backward(const Runner& run,
                                                        const AttentionSizes& sizes,
                                                        const Extent& extent);
/// Queries, keys and values with each sequence contiguous, as flash-attn requires. Copies views,
/// and everything if there is more than one sequence.
[[nodiscard]] QueryKeyValue by_sequence(const Runner& run, const QueryKeyValue& qkv,
                                        const AttentionSizes& sizes);
/// FlashAttention 2, causal: [T, heads*D].
[[nodiscard]] torch::Tensor flash_attention(const Runner& run, const QueryKeyValue& qkv,
                                            const AttentionSizes& sizes);

}  // namespace headroom::ir::megatron
