#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/memory/timeline.h"

namespace headroom::cost {

/// Blocks alive at one moment that have role, operator and size in common.
struct LiveGroup {
  ir::TensorRole role = ir::TensorRole::kTemporary;
  std::string operation;  ///< The operator that allocated them; empty if it is not named.
  bool backward = false;
  Bytes each;  ///< As allocated.
  std::int64_t count = 0;
  Bytes total;
  friend bool operator==(const LiveGroup&, const LiveGroup&) = default;
};

/// Gathers `blocks` into groups, the largest sum first; equal sums by role, operator and size.
[[nodiscard]] std::vector<LiveGroup> group_blocks(const ir::RankProgram& program,
                                                  const std::vector<LiveBlock>& blocks);

}  // namespace headroom::cost
