#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "runtimes/torch/compiled_graph.h"
#include "runtimes/torchtitan/block_sizes.h"
#include "runtimes/torchtitan/kept_values.h"
#include "runtimes/torchtitan/plan.h"

/// The steps of a compiled block, listed for a `CompiledGraph`.
namespace headroom::ir::torchtitan {

using Id = torch::CompiledGraph::Id;
using Made = torch::CompiledGraph::Made;

/// Weights that the graph reads, in the order of its arguments.
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
  Id q_norm = 0;  ///< Only Qwen3 has it.
  Id k_norm = 0;
};

/// The tensors that are cast to FP8: first inputs of products, then weights.
enum class Cast : std::uint8_t {
  kNormed1,
  kAttended,
  kNormed2,
  kWq,
  kWk,
  kWv,
  kWo,
  kW1,
  kW3,
  kW2,
};
inline constexpr std::size_t kCasts = 10;

/// The scale of an FP8 tensor: its absolute maximum (amax), and the reciprocal that a product
/// reads.
struct Scale {
  static constexpr Id kNone = std::numeric_limits<Id>::max();  ///< Not made yet.
  Id largest = kNone;
  Id factor = kNone;
};

/// The values that forward computes and backward reads, either kept or recomputed.
struct Values {
  Id x = 0;
  Id table = 0;  ///< The rotary table, or a conjugate view of it.
  Id rstd1 = 0;  ///< 1/rms, fp32.
  Id normed1 = 0;
  Id q = 0;  ///< First the product, then rotated.
  Id k = 0;
  Id v = 0;
  Id q_product = 0;  ///< Qwen3: input of the norm of queries.
  Id k_product = 0;
  Id q_rstd = 0;  ///< Qwen3: its 1/rms, fp32 [B, S, A].
  Id k_rstd = 0;
  Id attended = 0;
  Id log_sum = 0;
  Id seed = 0;
  Id offset = 0;
  Id projected = 0;  ///< The output of `wo`.
  Id rstd2 = 0;
  Id normed2 = 0;
  Id gate = 0;
  Id up = 0;
  Id active = 0;  ///< silu(gate) * up.
  std::array<Scale, kCasts> scales{};
  Id w1_turned = 0;  ///< FP8 weights as the products of backward read them.
  Id w3_turned = 0;
  Id w2_turned = 0;
};

/// The steps of a block, forward and backward.
class Steps {
 public:
  Steps(torch::Eager& eager, const Sizes& sizes, const BlockKeeps& keeps)
      : graph(eager), sizes_(sizes), memory_(keeps.memory), chosen_(keeps.chosen) {}

  torch::CompiledGraph graph;
  Weights weights{};
  Values values{};

  /// Lists the steps of forward and what it keeps. Returns its result.
  Id run();
  /// Lists the steps of backward. Returns the gradients of norm1, x, wq, wk, wv, wo, norm2, w1, w3,
  /// w2, and of Qwen3's norms of queries and keys.
  std::vector<Id> run_back(Id tangent);
  /// What forward keeps for backward besides its inputs.
  [[nodiscard]] std::vector<Id*> kept();
  /// Whether the rotary table is among the kept values.
  [[nodiscard]] bool keeps_table() const;

 private:
  friend class BudgetBlock;
  /// An FP8 tensor, untransposed and transposed (if both were made), and its scale's reciprocal.
  struct Eight {
    Id rows = 0;
    Id turned = 0;
    Id factor = 0;
  };
  /// Operands of the products for the gates' gradients.
  struct Gates8 {
    Eight active;   ///< Only transposed.
    Eight of_up;    ///< Gradient of the product of w3.
    Eight of_gate;  ///< Gradient of the product of w1.
  };
  /// Operands that the recomputed forward leaves for the products of backward.
  struct Inputs8 {
    Eight attended;  ///< Only transposed.
    Id normed1 = 0;
    Id wo = 0;  ///< Transposed.
    Id wk = 0;
  };
  /// Elements of each partial maximum over a whole tensor.
  static constexpr std::int64_t kElementsOfPart = 8192;

  [[nodiscard]] Made eight(const torch::Shape& shape, bool wide = false) const;
  [[nodiscard]] Scale& scale(Cast cast) { return values.scales[static_cast<std::size_t>(cast)]; }
  [[nodiscard]] bool keeps_turned_weights() const;
  /// Whether there is a scale for each row, and for each column of a transposed tensor.
  [[nodiscard]] bool by_rows() const { return sizes_.float8 != Float8Recipe::kTensorwise; }
  /// Whether weight-gradient products run in the activations' type.
  [[nodiscard]] bool wide_gradients() const {
    return sizes_.float8 == Float8Recipe::kRowwiseGradientHp;
  }
  std::vector<Id> cast_input(std::vector<Id> reads, std::vector<Made> made, Scale& scale);
  /// The part of the scale that is already known of a tensor that is cast again.
  [[nodiscard]] Id known(Cast cast) { return by_rows() ? scale(cast).factor : scale(cast).largest; }
  Id rescaled(Id product, const Eight& gradient, DType dtype);
  Id as_they_are(const std::vector<Id>& reads, std::int64_t width);
  Scale largest_of(std::vector<Id> reads, std::int64_t elements);
  Scale finish_scale(Id parts);
  Id factor_of(Cast cast);
  Id cast_weight(Id weight, Cast cast, bool turned);
  Eight cast_weight_twice(Id weight, Cast cast);
  Eight cast_gradient(std::vector<Id> reads, std::int64_t width);
  std::vector<Eight> turned_inputs(std::vector<Id> reads, std::int64_t width, std::size_t copies);
  Id product8(const std::vector<Id>& reads, const torch::Shape& shape, std::int64_t depth);
  Id columns8(Id input, Cast in, Id weight, Cast cast);
  Id input_gradient8(const Eight& gradient, Id weight, Cast cast);
  Id weight_gradient8(const Eight& gradient, const Eight& input);
  std::vector<Id> norm8(std::vector<Id> reads, std::vector<Made> made, Cast cast, Id& rstd);
  void norm_and_project8();
  void project_attended8(Inputs8* again);
  void to_gates8(Inputs8* again);
  void project_again8(Inputs8& inputs);
  void first_norm_again8(Inputs8& inputs);
  Gates8 gates_backward8(Id product);
  Id norm_backward8(std::vector<Id> reads, Made made, Id& weight);
  Id feed_forward_backward8(Id tangent, Inputs8& inputs, std::vector<Id>& grads);
  Id attended_backward8(Id residual, Inputs8& inputs, std::vector<Id>& grads);
  std::array<Id, 3> heads_backward8(const std::array<Id, 3>& heads, const Inputs8& inputs,
                                    std::vector<Id>& grads);
  void keep_scales(std::vector<Id*>& kept);
  Id columns(Id input, Id weight, std::int64_t in, std::int64_t out);
  Id input_gradient(Id gradient, Id weight, std::int64_t in, std::int64_t out);
  Id weight_gradient(Id gradient, Id input, std::int64_t in, std::int64_t out);
  [[nodiscard]] Made row_sums() const { return {{sizes_.rows()}, DType::kFp32, {}}; }
  [[nodiscard]] Made hidden() const { return {sizes_.wide(sizes_.hidden), sizes_.dtype, {}}; }

  void first_norm(bool keeps);
  void project_heads();
  void rotate_both(bool keeps);
  /// A norm of queries or keys and their rotation, in one kernel. Returns 1/rms if it is kept.
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
  Id turned_look(Id gradient, std::int64_t width, bool first);
  Id turned_back(Id gradient, std::int64_t width, bool first);
  Id rotated_back(Id gradient, bool queries);
  void second_norm(bool keeps);
  void again();
  struct Inner {
    Id up = 0;    ///< Gradient of the input of w3.
    Id gate = 0;  ///< Gradient of the input of w1.
  };
  Inner feed_forward_backward(Id tangent, std::vector<Id>& grads);
  Id second_norm_backward(Id tangent, const Inner& inner);
  void rotate_again();
  void finish(Id residual, const Inner& inner, const std::array<Id, 3>& heads,
              const std::array<Id, 3>& inputs, std::vector<Id>& grads);
  /// For a sum over rows of [rows, width] for the weight of a norm: whether it is part of a kernel
  /// that reads along the rows, and how many partial sums such a kernel writes.
  [[nodiscard]] static bool mixes_reductions(std::int64_t rows, std::int64_t width);
  [[nodiscard]] std::int64_t mixed_parts(std::int64_t rows) const;
  [[nodiscard]] Made partial_sum(std::int64_t rows, std::int64_t width) const;
  /// The work of a kernel that reads `reads` and writes `bytes` bytes, including its partial sums.
  [[nodiscard]] torch::CompiledGraph::Call sums_of_parts(std::vector<Id> reads, std::int64_t bytes,
                                                         torch::Shape parts);
  std::vector<Id> mix(std::vector<Id> reads, Made made, std::int64_t parts, std::size_t sums);
  Id summed(Id partial, std::int64_t width);

  /// Sums for the norms of queries and keys: those of a kernel, or tensors that are summed later.
  struct HeadSums {
    Id wide = 0;
    Id product = 0;
    Id rstd = 0;
    Id sum = 0;
    bool mixed = false;
  };
  HeadSums head_sums_[2];  ///< For queries and keys.
  /// Gradients of values, keys and queries, until those of their weights are computed.
  std::array<Eight, 3> heads_{};
  void finish_heads(std::vector<Id>& grads);

  [[nodiscard]] std::vector<Id*> kept_of_budget();
  Id forward();
  /// The same with FP8 products.
  Id forward_float8();
  std::vector<Id> backward(Id tangent);
  std::vector<Id> backward_float8(Id tangent);

  Sizes sizes_;
  BlockMemory memory_;
  KeptValues chosen_;  ///< Used under a budget.
};

}  // namespace headroom::ir::torchtitan
