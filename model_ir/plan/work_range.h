#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model_ir/plan/rank_program.h"

/// Named ranges of a program's work, as profilers know them: a mark on the compute stream before
/// the range and one after it. The operation of the marks' sites gives the name.
namespace headroom::ir {

/// One pass of a micro-batch through a chunk of a pipeline stage. `Site::layer`: the chunk.
inline constexpr std::string_view kForwardPass = "pass.forward";
inline constexpr std::string_view kBackwardPass = "pass.backward";
/// The part of a split backward that the previous stage waits for; the other part follows.
inline constexpr std::string_view kInputPass = "pass.input";
inline constexpr std::string_view kWeightPass = "pass.weight";
/// Forward operators that are recomputed for backward.
inline constexpr std::string_view kRecomputation = "recomputation";
/// The end of any of these ranges.
inline constexpr std::string_view kRangeEnd = "range.end";

/// A range: its items are [begin, end).
struct WorkRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::int32_t chunk = 0;
  std::string_view name;  ///< One of the names above.
};

/// All ranges, in the order of their ends. Ranges may be nested.
[[nodiscard]] std::vector<WorkRange> work_ranges(const RankProgram& program);

}  // namespace headroom::ir
