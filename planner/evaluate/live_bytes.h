#pragma once

#include <cstdint>
#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"

namespace headroom::plan {

/// Allocated bytes after each event of `program`, in blocks that nothing is left over of.
///
/// Model:   every request takes `cost::block_size`. That is what PyTorch's allocator hands out
///          where it may split every block, as it does with expandable segments; without them it
///          hands out at least as much.
/// Units:   bytes.
/// Source:  pytorch/pytorch c10/cuda/CUDACachingAllocator.cpp, round_size, should_split.
[[nodiscard]] std::vector<std::int64_t> live_curve(const ir::RankProgram& program,
                                                   const ir::AllocatorSettings& settings);

/// The greatest of `live_curve`, at least 0.
[[nodiscard]] std::int64_t live_peak(const ir::RankProgram& program,
                                     const ir::AllocatorSettings& settings);

}  // namespace headroom::plan
