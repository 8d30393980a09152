#pragma once

#include <string>
#include <string_view>

#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::ir {

/// Parses "alloc-conf" and similar values in PyTorch's form: "expandable_segments:True,...".
///
/// Errors:  kInvalidArgument for an unknown name, or for a value that the name does not accept.
[[nodiscard]] Result<AllocatorSettings> parse_allocator_settings(std::string_view text,
                                                                 AllocatorSettings base);
[[nodiscard]] std::string to_text(const AllocatorSettings& settings);

}  // namespace headroom::ir
