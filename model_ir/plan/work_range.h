#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model_ir/plan/rank_program.h"

/// Stretches of a program's work with a name, as profilers know them: a mark on the compute stream
/// before the stretch and one behind it, told by the operation of their sites.
namespace headroom::ir {

/// One pass of a micro-batch through a chunk of a pipeline stage. `Site::layer`: the chunk.
inline constexpr std::string_view kForwardPass = "pass.forward";
inline constexpr std::string_view kBackwardPass = "pass.backward";
/// A backward in two parts: what the stage before waits for, and the rest.
inline constexpr std::string_view kInputPass = "pass.input";
inline constexpr std::string_view kWeightPass = "pass.weight";
/// Forward operators that run again for backward.
inline constexpr std::string_view kRecomputation = "recomputation";
/// Behind any of them.
inline constexpr std::string_view kRangeEnd = "range.end";

/// A stretch: its items are [begin, end).
struct WorkRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::int32_t chunk = 0;
  std::string_view name;  ///< One of the names above.
};

/// All of them, in the order of their ends. Ranges may lie in each other.
[[nodiscard]] std::vector<WorkRange> work_ranges(const RankProgram& program);

}  // namespace headroom::ir
