#pragma once

#include <array>

#include "runtimes/interface/option.h"

/// The options that every framework understands: the plan's own fields and the parts that belong to
/// no framework.
namespace headroom::ir {

/// The plan's own fields, as a part of which every plan has one. Its rows stand beside the parts in
/// a plan's JSON.
[[nodiscard]] const PlanPart& plan_options();

[[nodiscard]] const PlanPart& optimizer_options();
[[nodiscard]] const PlanPart& lora_options();
[[nodiscard]] const PlanPart& quant_options();
[[nodiscard]] const PlanPart& generation_options();
[[nodiscard]] const PlanPart& allocator_options();

}  // namespace headroom::ir
