#pragma once

#include <cstdint>

#include "model_ir/base/units.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::cost {

/// The moment at which held bytes are counted.
enum class HeldAt : std::uint8_t {
  kOptimizerStep,
  kForward,  ///< Forward from the second step on; there may be no gradients.
};

/// Bytes that one rank of `plan` holds at one moment, whatever happens to its activations. This
/// lower bound of the peak costs a few multiplications and rules plans out without a replay.
///
/// Model:   parameters, gradients, optimizer states and master copies that are alive together in
///          the optimizer's step, sharded as in the framework, or in the forward of a later step.
///          Adapters, and what quantised weights need in addition to their bits, count as zero.
/// Ignores: activations, buffers, workspaces, rounding.
/// Source:  Rajbhandari et al. 2020, "ZeRO", arXiv:1910.02054, section 3 (who holds what).
[[nodiscard]] Bytes memory_floor(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                 HeldAt moment = HeldAt::kOptimizerStep);

}  // namespace headroom::cost
