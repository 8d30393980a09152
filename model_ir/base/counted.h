#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include "model_ir/base/units.h"

namespace headroom {

/// A count with its noun: "1 layer", "2 layers", "1,536 sequences". `many` is the plural if an "s"
/// does not make it.
template <std::integral Count>
[[nodiscard]] std::string counted(Count count, std::string_view one, std::string_view many = {}) {
  std::string text = with_commas(static_cast<std::int64_t>(count)) + " ";
  if (count == 1 || many.empty()) {
    return text + std::string(one) + (count == 1 ? "" : "s");
  }
  return text + std::string(many);
}

}  // namespace headroom
