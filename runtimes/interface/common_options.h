#pragma once

#include <array>

#include "runtimes/interface/option.h"

/// The options that every framework understands: the fields of the plan itself and the parts that
/// belong to no framework.
namespace headroom::ir {

/// The fields of the plan itself, as a part that every plan has. In a plan's JSON they are on the
/// same level as the parts.
[[nodiscard]] const PlanPart& plan_options();

[[nodiscard]] const PlanPart& optimizer_options();
[[nodiscard]] const PlanPart& lora_options();
[[nodiscard]] const PlanPart& quant_options();
[[nodiscard]] const PlanPart& generation_options();
[[nodiscard]] const PlanPart& allocator_options();

}  // namespace headroom::ir
