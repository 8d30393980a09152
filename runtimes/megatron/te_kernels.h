#pragma once

#include <cstdint>
#include <vector>

#include "model_ir/plan/device_work.h"
#include "runtimes/megatron/transformer_engine.h"

/// The attention kernels that Transformer Engine calls: those of its fused backend and of the
/// package flash-attn, version 2.
/// Source: transformer_engine/pytorch/attention/dot_product_attention/backends.py, FusedAttnFunc,
///         FlashAttention;
///         Dao-AILab/flash-attention 2.8, csrc/flash_attn/flash_api.cpp, mha_fwd and mha_bwd.
namespace headroom::ir::megatron {

/// Tokens per sequence of the queries and of the keys in an attention call.
struct Extent {
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  bool causal = true;
};

/// Results of a forward kernel.
struct KernelOutput {
  torch::Tensor output;
  torch::Tensor statistics;  ///< Log-sum-exp, fp32 [B, A, S, 1].
  torch::Tensor random;      ///< Random seed and offset.
};

[[nodiscard]] bool is_flash(const Runner& run);

/// The fused kernel on `extent` of one sequence: the forward, and the gradients of queries, keys
/// and values. `sinks`: the shape of the attention sinks if their gradient is needed.
[[nodiscard]] KernelOutput fused_forward(const Runner& run, const AttentionSizes& sizes,
                                         const Extent& extent);
[[nodiscard]] std::vector<torch::Tensor> fused_backward(const Runner& run,
                                                        const AttentionSizes& sizes,
                                                        const Extent& extent,
                                                        const torch::Shape& sinks = {});
/// The same with flash-attn 2.
[[nodiscard]] KernelOutput flash_forward(const Runner& run, const AttentionSizes& sizes,
                                         const Extent& extent);
[[nodiscard]] std::vector<torch::Tensor> flash_backward(const Runner& run,
                                                        const AttentionSizes& sizes,
                                                        const Extent& extent);
/// The same with the backend that the plan chooses.
[[nodiscard]] KernelOutput kernel_forward(const Runner& run, const AttentionSizes& sizes,
                                          const Extent& extent);
[[nodiscard]] std::vector<torch::Tensor> kernel_backward(const Runner& run,
                                                         const AttentionSizes& sizes,
                                                         const Extent& extent);

/// Queries, keys and values with each sequence contiguous, as flash-attn requires. Copies views,
/// and everything if there is more than one sequence.
[[nodiscard]] QueryKeyValue by_sequence(const Runner& run, const QueryKeyValue& qkv,
                                        const AttentionSizes& sizes);

}  // namespace headroom::ir::megatron
