#pragma once

#include <optional>

#include "gui/whatif/estimate_worker.h"
#include "model_ir/base/error.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::gui {

/// The reason for which the framework, its libraries or the device do not run `plan` with the model
/// of `grounds`; nothing if they do, and for a recorded program. Takes microseconds.
[[nodiscard]] std::optional<Error> refusal_of(const Grounds& grounds, const ir::ParallelPlan& plan);

}  // namespace headroom::gui
