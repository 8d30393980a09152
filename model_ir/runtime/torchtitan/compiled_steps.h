#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "model_ir/runtime/torch/compiled_graph.h"
#include "model_ir/runtime/torchtitan/compiled_block.h"

/// The steps of a compiled block, listed for a `CompiledGraph`.
namespace headroom::ir::torchtitan {

using Id = torch::CompiledGraph::Id;
using Made = torch::CompiledGraph::Made;

/// Sizes of a block.
struct Sizes {
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn = 0;
  DType dtype = DType::kBf16;
  bool norms_heads = false;  ///< Qwen3: heads are normed, and rotated by cosines and sines.

  [[nodiscard]] std::int64_t rows() const { return batch * sequence; }
  [[nodiscard]] torch::Shape wide(std::int64_t width) const { return {batch, sequence, width}; }
  [[nodiscard]] torch::Shape by_head(std::int64_t count) const {
    return {batch, count, sequence, head_dim};
  }
  [[nodiscard]] std::int64_t queries() const { return heads * head_dim; }
  [[nodiscard]] std::int64_t keys() const { return kv_heads * head_dim; }
};

/// Weights as the graph reads them, in the order of its arguments.
struct Weights {
  Id norm1 = 0;
  Id wq = 0;
  Id wk = 0;
  Id wv = 0;
  Id wo = 0;
  Id norm2 = 0;
  Id w1 = 0;
  Id w3 = 0;
  Id w2 = 0;
  Id q_norm = 0;  ///< Qwen3 alone.
  Id k_norm = 0;
};

/// What forward makes and backward reads, kept or made again.
struct Values {
  Id x = 0;
  Id table = 0;  ///< Rotations, or a conjugate look at them.
  Id rstd1 = 0;  ///< 1/rms, fp32
  Id normed1 = 0;
  Id q = 0;  ///< The product, then rotated.
  Id k = 0;
  Id v = 0;
  Id q_product = 0;  ///< Qwen3: what its heads' norms read,
  Id k_product = 0;
  Id q_rstd = 0;  ///< and their 1/rms, fp32 [B, S, A].
  Id k_rstd = 0;
  Id attended = 0;
  Id log_sum = 0;
  Id seed = 0;
  Id offset = 0;
  Id projected = 0;  ///< By wo.
  Id rstd2 = 0;
  Id normed2 = 0;
  Id gate = 0;
  Id up = 0;
  Id active = 0;  ///< silu(gate) * up
};

/// The steps of a block, forward and backward.
class Steps {
 public:
  Steps(torch::Eager& eager, const Sizes& sizes, BlockMemory memory)
      : graph(eager), sizes_(sizes), memory_(memory) {}

  torch::CompiledGraph graph;
  Weights weights{};
  Values values{};

  Id forward();
  /// Gradients of norm1, x, wq, wk, wv, wo, norm2, w1, w3, w2, and of Qwen3's norms of heads.
  std::vector<Id> backward(Id tangent);

 private:
  Id columns(Id input, Id weight, std::int64_t in, std::int64_t out);
  Id input_gradient(Id gradient, Id weight, std::int64_t in, std::int64_t out);
  Id weight_gradient(Id gradient, Id input, std::int64_t in, std::int64_t out);
  [[nodiscard]] Made row_sums() const { return {{sizes_.rows()}, DType::kFp32, {}}; }
  [[nodiscard]] Made hidden() const { return {sizes_.wide(sizes_.hidden), sizes_.dtype, {}}; }

  void first_norm(bool keeps);
  void project_heads();
  void rotate_both(bool keeps);
  /// A norm of heads and their rotation, one kernel. Leaves 1/rms if it is kept.
  struct HeadNorm {
    Id weight = 0;
    std::int64_t heads = 0;
  };
  Id norm_heads(Id product, const HeadNorm& norm, Id* rstd);
  Id widened(Id heads, std::int64_t width);
  Id turned(Id look);
  Id narrowed(Id look, std::int64_t width);
  [[nodiscard]] torch::Tensor heads(torch::Eager& eager, Id rows, std::int64_t count) const;
  void attend();
  std::array<Id, 3> attend_backward(Id gradient);
  Id turned_back(Id gradient, std::int64_t width, bool first);
  Id rotated_back(Id gradient, bool queries);
  void second_norm(bool keeps);
  void again();
  struct Inner {
    Id up = 0;    ///< Of the input of w3.
    Id gate = 0;  ///< Of the input of w1.
  };
  Inner feed_forward_backward(Id tangent, std::vector<Id>& grads);
  Id second_norm_backward(Id tangent, const Inner& inner);
  void rotate_again();
  void finish(Id residual, const Inner& inner, const std::array<Id, 3>& heads,
              const std::array<Id, 3>& inputs, std::vector<Id>& grads);
  /// A sum over rows [rows, width] for the weight of a norm: whether it is part of a kernel that
  /// reads along the rows, and what one writes of it.
  [[nodiscard]] static bool mixes_reductions(std::int64_t rows, std::int64_t width);
  [[nodiscard]] std::int64_t mixed_parts(std::int64_t rows) const;
  [[nodiscard]] Made partial_sum(std::int64_t rows, std::int64_t width) const;
  std::vector<Id> mix(std::vector<Id> reads, Made made, std::int64_t parts, std::size_t sums);
  Id summed(Id partial, std::int64_t width);

  /// Sums for the norms of heads: those of a kernel, or what is summed up later.
  struct HeadSums {
    Id wide = 0;
    Id product = 0;
    Id rstd = 0;
    Id sum = 0;
    bool mixed = false;
  };
  HeadSums head_sums_[2];  ///< Of queries and of keys.
  void finish_heads(std::vector<Id>& grads);

  Sizes sizes_;
  BlockMemory memory_;
};

}  // namespace headroom::ir::torchtitan
