#pragma once

#include <cstdint>
#include <string_view>

namespace headroom::ir {

/// A tensor type of ggml: each `elements` elements of a row form a block of `bytes`.
struct GgmlType {
  std::uint32_t number = 0;  ///< As written in a GGUF file.
  std::string_view name;
  std::int64_t elements = 1;
  std::int64_t bytes = 0;
};

/// The type with that number; nullptr if it does not exist or was removed (Q4_2, Q4_0_4_4).
[[nodiscard]] const GgmlType* ggml_type(std::uint32_t number);

}  // namespace headroom::ir
