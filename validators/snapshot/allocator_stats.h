#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/result.h"
#include "model_ir/base/units.h"

namespace headroom::check {

/// One statistic of the allocator, in bytes. In texts, larger values are rounded down to the unit
/// that is printed.
struct StatBytes {
  Bytes current;
  Bytes peak;
  Bytes allocated;  ///< All that was ever allocated.
  Bytes freed;
};

/// The statistics of one device at one moment.
struct AllocatorStats {
  std::int64_t device = -1;  ///< -1: not said.
  StatBytes allocated;
  StatBytes active;
  StatBytes requested;  ///< 0 before PyTorch 2.1, which does not count it.
  StatBytes reserved;
  StatBytes inactive_split;  ///< Free parts of segments that are partly used: cannot be returned.
  std::int64_t retries = 0;
  std::int64_t out_of_memory = 0;
};

/// Whether a text is one that `read_allocator_stats` reads: it holds a printed summary, or it is
/// JSON.
[[nodiscard]] bool is_allocator_stats(std::string_view text);

/// Reads every table of torch.cuda.memory_summary() in a text or log, or the JSON of
/// torch.cuda.memory_stats(): one object, or an array of them.
///
/// Units:   bytes.
/// Errors:  kInvalidInput for JSON without these statistics or with negative or huge values, and
/// for
///          a table that lacks its rows.
/// Source:  pytorch torch/cuda/memory.py 2.11, memory_summary and memory_stats; the texts are the
///          same since 1.4.
[[nodiscard]] Result<std::vector<AllocatorStats>> read_allocator_stats(std::string_view text,
                                                                       std::string_view file);

}  // namespace headroom::check
