#pragma once

#include <string>
#include <string_view>

#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::cli {

/// "alloc-conf" and its like, as PyTorch writes it: "expandable_segments:True,...".
///
/// Errors:  kInvalidArgument for an unknown name or a value it does not take.
[[nodiscard]] Result<ir::AllocatorSettings> parse_allocator_settings(std::string_view text,
                                                                     ir::AllocatorSettings base);
[[nodiscard]] std::string to_text(const ir::AllocatorSettings& settings);

}  // namespace headroom::cli
