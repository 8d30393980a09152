#include "costmodel/memory/allocation_size.h"

#include <bit>

#include "model_ir/base/check.h"
#include "model_ir/base/units.h"

namespace headroom::cost {

std::int64_t block_size(std::int64_t requested, std::int64_t divisions) {
  HEADROOM_ASSERT(requested > 0 && requested <= kLargestRequest);
  if (requested < kMinBlock) {
    return kMinBlock;
  }
  if (divisions > 1 && requested > kMinBlock * divisions) {
    const auto floor =
        static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(requested)));
    return align_up(requested, floor / divisions);  // Powers of two need no rounding.
  }
  return align_up(requested, kMinBlock);
}

std::int64_t segment_size(std::int64_t size) {
  if (size <= kSmallRequest) {
    return kSmallSegment;
  }
  if (size < kMinLargeRequest) {
    return kLargeSegment;
  }
  return align_up(size, kSegmentRounding);
}

}  // namespace headroom::cost
