#pragma once

#include <cstdint>

#include "model_ir/base/units.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::cost {

/// When a rank holds what it holds.
enum class HeldAt : std::uint8_t {
  kOptimizerStep,
  kForward,  ///< From the second step on; there may be no gradients.
};

/// Bytes that one rank of `plan` holds at once however its activations are kept: a lower bound of
/// the peak that costs a few multiplications, to rule plans out without replaying them.
///
/// Model:   parameters, gradients, optimizer states and master copies as they stand together in
///          the optimizer's step, sharded as the framework does, or as they stand in a later
///          step's forward. Adapters and what quantised weights need besides their bits count as
///          nothing.
/// Ignores: activations, buffers, workspaces, rounding.
/// Source:  Rajbhandari et al. 2020, "ZeRO", arXiv:1910.02054, section 3 (who holds what).
[[nodiscard]] Bytes memory_floor(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                 HeldAt moment = HeldAt::kOptimizerStep);

}  // namespace headroom::cost
