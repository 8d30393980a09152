#pragma once

#include <cstdint>
#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"

namespace headroom::plan {

/// Allocated bytes after each event of `program`, if no block has unused space.
///
/// Model:   every request takes `cost::block_size`. PyTorch's allocator returns exactly that if it
///          may split every block, as it does with expandable segments. Without them it returns at
///          least as much.
/// Units:   bytes.
/// Source:  pytorch/pytorch c10/cuda/CUDACachingAllocator.cpp, round_size, should_split.
[[nodiscard]] std::vector<std::int64_t> live_curve(const ir::RankProgram& program,
                                                   const ir::AllocatorSettings& settings);

/// The maximum of `live_curve`, at least 0.
[[nodiscard]] std::int64_t live_peak(const ir::RankProgram& program,
                                     const ir::AllocatorSettings& settings);

}  // namespace headroom::plan
