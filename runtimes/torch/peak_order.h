#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace headroom::ir::torch {

/// A buffer of a generated function, as its scheduler counts it.
struct ScheduledBuffer {
  std::int64_t made = 0;  ///< Bytes that making it takes,
  std::int64_t freed =
      0;  ///< and that its end gives back: not the same for several results at once.
  std::size_t number = 0;  ///< Its name is "buf" and this.
  bool is_input = false;   ///< Given to the function, which may free it.
  bool is_output = false;
};

/// A kernel or call, with the buffers by index. Buffers that it alone reads are read by none.
struct ScheduledNode {
  std::vector<std::size_t> reads;
  std::vector<std::size_t> makes;
};

/// The order in which Inductor runs `nodes`, as indices.
///
/// Model:  first each node behind what it reads, in the order given; then, if one of three other
///         orders (least memory first, breadth first, depth first from the smallest) has a lower
///         peak, the first with the lowest.
/// Source: pytorch/pytorch 2.11 torch/_inductor/scheduler.py, topological_sort_schedule;
///         torch/_inductor/memory.py, reorder_for_peak_memory.
[[nodiscard]] std::vector<std::size_t> peak_order(std::span<const ScheduledNode> nodes,
                                                  std::span<const ScheduledBuffer> buffers);

}  // namespace headroom::ir::torch
