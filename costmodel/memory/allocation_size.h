#pragma once

#include <cstdint>

namespace headroom::cost {

/// Constants of PyTorch's native allocator, in bytes.
/// Source: pytorch/pytorch c10/core/AllocatorConfig.h, 2.11.0.
inline constexpr std::int64_t kMinBlock = 512;          ///< kMinBlockSize
inline constexpr std::int64_t kSmallRequest = 1 << 20;  ///< kSmallSize: largest of the small pool
inline constexpr std::int64_t kSmallSegment = 2 << 20;  ///< kSmallBuffer
inline constexpr std::int64_t kMinLargeRequest = 10 << 20;  ///< kMinLargeAlloc
inline constexpr std::int64_t kLargeSegment = 20 << 20;     ///< large_segment_size_
inline constexpr std::int64_t kSegmentRounding = 2 << 20;   ///< kRoundLarge
/// Larger requests are out of memory on every device (NativeCachingAllocator::allocate).
inline constexpr std::int64_t kLargestRequest = (std::int64_t{1} << 60) - 1;

/// Size of the block that serves a request of `requested` bytes.
///
/// Model:   a multiple of 512; with `divisions` > 1 and more than 512 * divisions bytes requested,
///          the next of `divisions` equal steps between the enclosing powers of two.
/// Requires 0 < requested <= kLargestRequest; divisions is 0 (off) or a power of two.
/// Source:  c10/cuda/CUDACachingAllocator.cpp, round_size and roundup_power2_next_division.
[[nodiscard]] std::int64_t block_size(std::int64_t requested, std::int64_t divisions);

/// Size of the segment opened when no free block serves a block of `size` bytes.
///
/// Source:  c10/cuda/CUDACachingAllocator.cpp, get_allocation_size.
[[nodiscard]] std::int64_t segment_size(std::int64_t size);

}  // namespace headroom::cost
