#pragma once

#include <cstdint>

#include "model_ir/base/units.h"
#include "model_ir/plan/rank_program.h"

namespace headroom::cost {

/// What an allocator says of itself at one moment.
struct AllocatorState {
  Bytes allocated;  ///< Sum of the blocks handed out, rounding and unsplit tails included.
  Bytes requested;  ///< Sum of what was asked for.
  Bytes reserved;   ///< Sum of the segments obtained from the driver.
  Bytes peak_allocated;
  Bytes peak_requested;
  Bytes peak_reserved;
  std::int64_t retries = 0;  ///< Times the whole cache was given back because an allocation failed.
  friend bool operator==(const AllocatorState&, const AllocatorState&) = default;
};

/// Seam: how device memory is handed out. One of the three places with virtual functions.
class AllocatorModel {
 public:
  virtual ~AllocatorModel() = default;
  /// Serves `requested` bytes on `stream` under the name `block`; false: out of memory.
  [[nodiscard]] virtual bool allocate(ir::BlockId block, Bytes requested, ir::StreamId stream) = 0;
  virtual void free(ir::BlockId block) = 0;
  virtual void empty_cache() = 0;
  [[nodiscard]] virtual AllocatorState state() const = 0;
  /// Size of the live block as `allocated` counts it.
  [[nodiscard]] virtual Bytes size_of(ir::BlockId block) const = 0;
  virtual void reset_peaks() = 0;
};

}  // namespace headroom::cost
