#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "runtimes/torchtitan/compiled_steps.h"

namespace headroom::ir::torchtitan {

/// The steps of a block that keeps what the partitioner chose. There is one step for each operator
/// that Inductor lowers, in its order. `CompiledGraph` decides which steps are fused into one
/// kernel, and when each runs.
///
/// Model:  backward recomputes a value when it first reads it, in forward's order. Kernels that
///         read the same rows are fused, unless a product between them needs the first one's
///         result.
/// Source: pytorch/pytorch 2.11 torch/_functorch/partitioners.py,
///         reordering_to_mimic_autograd_engine; torch/_inductor/scheduler.py, fuse_nodes; kernels
///         as they were generated for Llama 3 and Qwen3.
class BudgetBlock {
 public:
  BudgetBlock(Steps& steps, const KeptValues& kept) : s_(steps), have_(kept), kept_(kept) {}

  Id forward();
  std::vector<Id> backward(Id tangent);

 private:
  /// The part of backward for which a norm is recomputed: the products of the gates, the part
  /// before the norm's own gradient, attention, or the weights of queries, keys and values.
  enum class Phase : std::uint8_t { kGates, kFeedForward, kAttention, kHeads };
  struct Again {
    std::optional<Id> rstd;
    std::optional<Id> output;
    Phase phase = Phase::kGates;
  };
  struct Inner {
    Id up = 0;
    Id gate = 0;
  };
  using Values = std::initializer_list<BlockValue>;

  [[nodiscard]] bool has(BlockValue value) const { return have_.has(value); }
  [[nodiscard]] const Sizes& sizes() const { return s_.sizes_; }
  /// Makes those of `values` that do not exist yet, and the values that they are made from.
  void demand(Values values);
  void collect(BlockValue value, KeptValues& wanted) const;
  void make(const KeptValues& wanted);
  void make_heads(const KeptValues& wanted);
  struct Norm {
    std::vector<Id> reads;
    Id weight = 0;
    BlockValue rstd = BlockValue::kRstd1;  ///< The value's name.
    bool apart = false;                    ///< Runs as a separate kernel.
  };
  Id norm(Norm norm, Id& rstd, Again& again);
  void rotate_complex(bool queries, bool keys);
  void norm_heads(const KeptValues& wanted);
  void narrow(Id& heads, const std::optional<Id>& seen, std::int64_t width);
  void narrow_both(bool keys_first);
  [[nodiscard]] Id table();

  Inner feed_forward_backward(Id tangent, std::vector<Id>& grads);
  Id second_norm_backward(Id tangent, const Inner& inner);
  std::array<Id, 3> attention_backward(Id residual, std::vector<Id>& grads);
  void unrotate_complex(std::array<Id, 3>& heads);
  void unnorm_heads(std::array<Id, 3>& heads);
  void result(std::array<Id, 3>& heads, bool queries);
  void fuse_second_norm(Id residual);
  void finish(Id residual, const Inner& inner, const std::array<Id, 3>& inputs,
              std::vector<Id>& grads);
  /// The sum for the gradient of a norm's weight, numbered at the position of its operators.
  struct WeightSum {
    Id partial = 0;
    Id result = 0;
  };
  WeightSum weight_sum(std::vector<Id> reads, std::int64_t rows, std::int64_t width, bool mixes);
  struct Heads {
    Id wide = 0;
    Id sums = 0;
    Id rstd = 0;
    WeightSum weight;
    bool mixed = false;
  };

  Steps& s_;
  KeptValues have_;
  KeptValues kept_;
  bool in_backward_ = false;
  Phase phase_ = Phase::kGates;
  Again first_;
  Again second_;
  std::optional<Id> active_;
  std::optional<Id> seen_q_;  ///< Rotated queries in fp32.
  std::optional<Id> seen_k_;
  bool attends_again_ = false;
  std::optional<Id> table_;        ///< The view that the rotation reads.
  std::array<Id, 2> seen_back_{};  ///< Gradients of queries and keys, rotated back in fp32.
  Id residual_sums_ = 0;
  WeightSum second_weight_;
  bool mixes_ = false;            ///< The sums for the norms' weights are part of the last kernel.
  std::array<Heads, 2> heads_{};  ///< For queries and keys.
};

}  // namespace headroom::ir::torchtitan
