#pragma once

#include <memory>

#include "costmodel/memory/allocator_model.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::cost {

/// PyTorch's native caching allocator on a device of `capacity` bytes.
///
/// Model:   512-byte rounding; small (<= 1 MiB) and large pools per stream; 2 and 20 MiB segments;
///          best fit by size, then by address; splitting; merging with free neighbours;
///          max_split_size, roundup_power2_divisions, garbage_collection_threshold,
///          expandable_segments; release of cached segments and one retry before out of memory.
/// Source:  pytorch/pytorch c10/cuda/CUDACachingAllocator.cpp, c10/core/AllocatorConfig.h.
[[nodiscard]] std::unique_ptr<AllocatorModel> make_caching_allocator(
    const ir::AllocatorSettings& settings, Bytes capacity);

}  // namespace headroom::cost
