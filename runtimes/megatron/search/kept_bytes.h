#pragma once

#include <cstdint>

#include "model_ir/base/device_traits.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::plan {

/// What one layer like `layer` keeps of one micro-batch from its forward to its backward, under the
/// recomputation of `plan`: of `recompute_layers` layers run again together, one layer's share is
/// taken as that of a layer run again alone.
///
/// Model:   two short programs, with three and four such layers on the first of three stages. What
///          a pass of the warm-up adds to the live bytes, in one less the other.
/// Units:   bytes. Requires the runtime megatron.
/// Errors:  those of the lowering.
[[nodiscard]] Result<std::int64_t> kept_bytes(const ir::ModelSpec& model,
                                              const ir::ParallelPlan& plan,
                                              const ir::LayerSpec& layer,
                                              const DeviceTraits& device);

/// Passes forward through chunks of a stage that are kept at once when its first backward begins.
[[nodiscard]] std::int64_t kept_passes(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                       std::int64_t stage = 0);

}  // namespace headroom::plan
