#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace headroom::ir::torch {

/// What the partitioner knows about an operator.
enum class JointOp : std::uint8_t {
  kInput,      ///< An argument of forward.
  kPointwise,  ///< In the list of operators that may be recomputed, reductions included; fuses.
  kView,       ///< The same, and costs nothing.
  kItem,       ///< One result of an operator with several: may always be recomputed.
  kCat,        ///< Neighbours fuse into it; it fuses into none.
  kIntensive,  ///< A matrix product or attention.
  kOther,      ///< In no list.
};

/// An operator in the joint graph of forward and backward of a compiled function.
struct JointNode {
  JointOp op = JointOp::kPointwise;
  std::vector<std::size_t> reads;  ///< Earlier nodes.
  std::int64_t bytes = 0;          ///< Bytes of all its results.
  double flops = 1;                ///< FLOPs by FlopCounterMode; 1 if it counts none.
  bool is_parameter = false;       ///< Stays alive anyway, so saving it is free.
  bool is_tuple = false;           ///< Has several results; only its `kItem`s can be saved.
  bool is_gradient = false;        ///< Depends on the gradients that backward receives.
  bool is_output = false;          ///< Returned by forward.
};

/// The nodes that forward saves for backward, as indices in order, arguments included. `budget` is
/// torch._functorch.config.activation_memory_budget, from 0 to 1.
///
/// Model:  a budget of 1 is a minimum cut with bans on operators that are expensive, not in the
///         list, materialised or read far apart; 0 saves the arguments. For values in between, cuts
///         with fewer bans are tried, then a knapsack over what the last cut bans, until the saved
///         bytes are within the budget.
/// Source: pytorch/pytorch 2.11 torch/_functorch/partitioners.py, choose_saved_values_set,
///         solve_min_cut, estimate_runtime ("flops");
///         torch/_functorch/_activation_checkpointing/knapsack.py, dp_knapsack (fp32 sums).
/// Ignores: chains of more than 100 operators, checkpointing tags, random operators, collectives.
/// Errors:  none. Requires a budget from 0 to 1.
[[nodiscard]] std::vector<std::size_t> saved_nodes(std::span<const JointNode> graph, double budget);

}  // namespace headroom::ir::torch
