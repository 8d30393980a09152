#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace headroom::ir::torch {

/// A buffer of a generated function in the scheduler's estimate.
struct ScheduledBuffer {
  std::int64_t made = 0;  ///< Bytes that are allocated for it,
  std::int64_t freed =
      0;  ///< and bytes that are freed with it; they differ if an operator has several results.
  std::size_t number = 0;  ///< Its name is "buf" and this number.
  bool is_input = false;   ///< An argument of the function, which may free it.
  bool is_output = false;
};

/// A kernel or call, with its buffers by index. A buffer that only its own node reads is in no list
/// of reads.
struct ScheduledNode {
  std::vector<std::size_t> reads;
  std::vector<std::size_t> makes;
};

/// The order in which Inductor runs `nodes`, as indices.
///
/// Model:  first, each node after the nodes it reads from, in the given order. Then, if one of
///         three other orders (least memory first, breadth first, depth first from the smallest)
///         has a lower peak, the first one with the lowest peak.
/// Source: pytorch/pytorch 2.11 torch/_inductor/scheduler.py, topological_sort_schedule;
///         torch/_inductor/memory.py, reorder_for_peak_memory.
[[nodiscard]] std::vector<std::size_t> peak_order(std::span<const ScheduledNode> nodes,
                                                  std::span<const ScheduledBuffer> buffers);

}  // namespace headroom::ir::torch
