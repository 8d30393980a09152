#pragma once

#include <cstdint>
#include <optional>

#include "runtimes/megatron/process.h"
#include "runtimes/megatron/weights.h"
#include "runtimes/torch/eager.h"

/// Transformer Engine's modules as autograd functions: what each of them saves, allocates and
/// frees. Activations are [T, width]: tokens of this rank by features of this rank.
/// Source: NVIDIA/TransformerEngine 2.11, transformer_engine/pytorch.
namespace headroom::ir::megatron {

/// Everything a module needs to run.
struct Runner {
  const Context& context;
  Process& process;

  [[nodiscard]] torch::Eager& eager() const { return context.eager; }
};

/// LayerNormLinear, column-parallel. Under sequence parallelism the norm's output is gathered, and
/// this rank's part is saved. `gemm_bias`: the product adds the bias; a bias that is added later
/// does not concern this module.
/// Source: module/layernorm_linear.py.
[[nodiscard]] torch::Tensor norm_linear(const Runner& run, const torch::Tensor& input,
                                        const NormWeights& norm, const LinearWeights& linear,
                                        bool gemm_bias);

/// How a linear layer is sharded among tensor-parallel ranks.
enum class Cut : std::uint8_t {
  kNone,    ///< Whole on every rank.
  kColumn,  ///< Sharded by outputs.
  kRow,     ///< Sharded by inputs: outputs are summed over the ranks.
};

/// The form in which an FP8 linear layer saves its input for backward.
enum class KeptInput : std::uint8_t {
  kCast,      ///< In FP8.
  kOriginal,  ///< Uncast, because others save it anyway: save_original_input.
};

/// Linear without a bias. `kept` matters only under FP8. Source: module/linear.py.
[[nodiscard]] torch::Tensor linear(const Runner& run, const torch::Tensor& input,
                                   const torch::Tensor& weight, Cut cut,
                                   KeptInput kept = KeptInput::kCast);

/// LayerNorm or RMSNorm as a module of its own. Source: ops/basic/{layer_norm,rmsnorm}.py.
[[nodiscard]] torch::Tensor norm(const Runner& run, const torch::Tensor& input,
                                 const NormWeights& weights);

/// Queries, keys and values of one fused projection, each [T, heads*D].
struct QueryKeyValue {
  torch::Tensor query;
  torch::Tensor key;
  torch::Tensor value;
  torch::Tensor sinks = {};  ///< Parameter [A/TP]; undefined without attention sinks.
};

/// SplitAlongDim: the results are views. Backward concatenates their gradients in one tensor.
[[nodiscard]] QueryKeyValue split_heads(const Runner& run, const torch::Tensor& fused,
                                        std::int64_t query, std::int64_t key);
/// apply_rotary_pos_emb, fused. Source: attention/rope.py, FusedRoPEFunc.
[[nodiscard]] torch::Tensor rotate(const Runner& run, const torch::Tensor& input,
                                   const torch::Tensor& table);
/// `input.reshape` if it needs a copy. Backward also copies a gradient whose layout does not match.
[[nodiscard]] torch::Tensor reshaped_copy(const Runner& run, const torch::Tensor& input);
/// `input.contiguous()` of a view, which copies it to new memory.
[[nodiscard]] torch::Tensor contiguous_copy(const Runner& run, const torch::Tensor& input);

/// The memory layout of queries, keys and values.
enum class QkvLayout : std::uint8_t {
  kPacked,         ///< Views of one tensor; their gradients are one tensor, too.
  kViews,          ///< Each is a view, which is made contiguous first.
  kKeyValueViews,  ///< Keys and values are views, which are made contiguous first.
  kValueView,      ///< Only values are a view, which is made contiguous first.
  kSeparate,
};

/// Sizes of one attention call on this rank.
struct AttentionSizes {
  std::int64_t batch = 1;     ///< B.
  std::int64_t sequence = 1;  ///< S/CP.
  std::int64_t heads = 1;     ///< A/TP.
  std::int64_t kv_heads = 1;  ///< K/TP.
  std::int64_t head_dim = 1;  ///< D of queries and keys.
  std::int64_t value_dim = 1;
  double dropout = 0;
  std::int64_t window = 0;  ///< Keys that a query sees; 0: all keys before it.
  QkvLayout layout = QkvLayout::kValueView;
};

/// DotProductAttention, causal: [T, heads*value_dim].
/// Source: attention/dot_product_attention/backends.py, FusedAttnFunc, UnfusedDotProductAttention;
///         context_parallel.py, AttnFuncWithCPAndKVP2P.
[[nodiscard]] torch::Tensor dot_product_attention(const Runner& run, const QueryKeyValue& qkv,
                                                  const AttentionSizes& sizes);

}  // namespace headroom::ir::megatron
