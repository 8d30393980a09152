#pragma once

#include "model_ir/base/device_traits.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir {

/// Lowers `model` under `plan` for one rank: what that rank's process does to its device memory,
/// in order. One runtime is one folder and one line here.
///
/// Errors: kInvalidArgument naming the option where plan, model and runtime do not go together.
[[nodiscard]] Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan, Rank rank,
                                        const DeviceTraits& device);

}  // namespace headroom::ir
