#pragma once

#include "model_ir/base/units.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::cost {

/// Bytes that one rank of `plan` holds at once however its activations are kept: a lower bound of
/// the peak that costs a few multiplications, to rule plans out without replaying them.
///
/// Model:   parameters, gradients, optimizer states and master copies as they stand together in
///          the optimizer's step, sharded as the ZeRO stage says. Adapters and what quantised
///          weights need besides their bits count as nothing.
/// Ignores: activations, buffers, workspaces, rounding.
/// Source:  Rajbhandari et al. 2020, "ZeRO", arXiv:1910.02054, section 3 (who holds what).
[[nodiscard]] Bytes memory_floor(const ir::ModelSpec& model, const ir::ParallelPlan& plan);

}  // namespace headroom::cost
