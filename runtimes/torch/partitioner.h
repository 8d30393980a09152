#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace headroom::ir::torch {

/// What the partitioner knows of an operator.
enum class JointOp : std::uint8_t {
  kInput,      ///< An argument of forward.
  kPointwise,  ///< In the list of operators that may run again, reductions too; fuses.
  kView,       ///< The same, and costs nothing.
  kItem,       ///< One of what an operator makes: never refused a second run.
  kCat,        ///< Neighbours fuse into it, it fuses into none.
  kIntensive,  ///< A product or attention.
  kOther,      ///< In no list.
};

/// Forward and backward of a compiled function in one graph, operators in their order.
struct JointNode {
  JointOp op = JointOp::kPointwise;
  std::vector<std::size_t> reads;  ///< Earlier nodes.
  std::int64_t bytes = 0;          ///< Of all it makes.
  double flops = 1;                ///< FlopCounterMode's; one where it counts none.
  bool is_parameter = false;       ///< Lives on anyway: free to save.
  bool is_tuple = false;           ///< Makes several: only `kItem`s of it can be saved.
  bool is_gradient = false;        ///< Depends on what backward is given.
  bool is_output = false;          ///< Returned by forward.
};

/// What forward saves for backward, as indices of nodes in their order, arguments included.
/// `budget` is torch._functorch.config.activation_memory_budget, from 0 to 1.
///
/// Model:  1 is a minimum cut that bans what is dear, not in the list, materialised or read far
///         apart; 0 saves the arguments. In between, cuts with fewer bans, then a knapsack over
///         what the last of them bans, are tried until the share of the budget holds.
/// Source: pytorch/pytorch 2.11 torch/_functorch/partitioners.py, choose_saved_values_set,
///         solve_min_cut, estimate_runtime ("flops");
///         torch/_functorch/_activation_checkpointing/knapsack.py, dp_knapsack (fp32 sums).
/// Ignores: chains of more than 100 operators, checkpointing tags, random operators, collectives.
/// Errors:  none. Requires a budget from 0 to 1.
[[nodiscard]] std::vector<std::size_t> saved_nodes(std::span<const JointNode> graph, double budget);

}  // namespace headroom::ir::torch
