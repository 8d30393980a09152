#pragma once

#include <vector>

#include "model_ir/base/result.h"
#include "runtimes/interface/option.h"

namespace headroom::ir {

/// The parts of a plan that belong to frameworks, each once, in the order of the registry.
[[nodiscard]] std::vector<const PlanPart*> framework_parts();
/// All parts that are objects of their own in a plan's JSON, in its order. The optimizer is not
/// among them; it is on the level of the plan's own fields.
[[nodiscard]] std::vector<const PlanPart*> plan_parts();

/// Refuses a plan with a part that its framework does not read. Requires a known framework.
///
/// Errors:  kInvalidArgument naming the part's option and the framework to which it belongs.
[[nodiscard]] Status refuse_foreign_parts(const ParallelPlan& plan);

}  // namespace headroom::ir
