#pragma once

#include <cstdint>

namespace headroom::ir {

/// Consecutive layers.
struct LayerSpan {
  std::int64_t first = 0;
  std::int64_t count = 0;
  friend bool operator==(const LayerSpan&, const LayerSpan&) = default;
};

}  // namespace headroom::ir
