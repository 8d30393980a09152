#pragma once

#include "costmodel/estimate.h"
#include "model_ir/base/result.h"

namespace headroom::cost {

/// `estimate` of `plan` if the experts of the rank shown get `load` times an even share of the
/// tokens. The step's time remains that of even shares.
///
/// Errors:  those of `estimate`.
[[nodiscard]] Result<StepEstimate> estimate_with_load(const ir::ModelSpec& model,
                                                      const ir::ParallelPlan& plan, double load,
                                                      const DeviceSpec& device, Bytes budget,
                                                      const Machine* machine);

}  // namespace headroom::cost
