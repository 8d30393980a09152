#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model_ir/plan/rank_program.h"

/// Stretches of a program's work that have a kind, as profilers know them: a mark on the compute
/// stream before the stretch and one behind it, told by the operation of their sites.
namespace headroom::ir {

enum class RangeKind : std::uint8_t {
  // One pass of a micro-batch through a chunk of a pipeline stage. `Site::layer`: the chunk.
  kForwardPass,
  kBackwardPass,
  // A forward pass through a chunk, and at the same time a backward pass through any chunk.
  kJointPass,
  // A backward in two parts: what the stage before waits for, and the rest.
  kInputPass,
  kWeightPass,
  kRecomputation,  ///< Forward operators that run again for backward.
};

/// The operation of the mark before a stretch: "pass.forward".
[[nodiscard]] std::string_view name_of(RangeKind kind);
/// The operation of the mark behind any of them.
inline constexpr std::string_view kRangeEnd = "range.end";

/// A range: its items are [begin, end).
struct WorkRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::int32_t chunk = 0;
  RangeKind kind = RangeKind::kForwardPass;
};

/// All ranges, in the order of their ends. Ranges may be nested.
[[nodiscard]] std::vector<WorkRange> work_ranges(const RankProgram& program);

}  // namespace headroom::ir
