#pragma once

#include <cstdint>

#include "model_ir/base/device_traits.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::plan {

/// What one layer like `layer` keeps for one micro-batch from its forward to its backward, under
/// the recomputation of `plan`. If `recompute_layers` layers are recomputed together, the share of
/// one layer is taken to be that of a layer that is recomputed alone.
///
/// Model:   two short programs, with three and four such layers on the first of three stages. The
///          result is the difference between the live bytes that a pass of the warm-up adds in the
///          two.
/// Units:   bytes. Requires the runtime megatron.
/// Errors:  those of the lowering.
[[nodiscard]] Result<std::int64_t> kept_bytes(const ir::ModelSpec& model,
                                              const ir::ParallelPlan& plan,
                                              const ir::LayerSpec& layer,
                                              const DeviceTraits& device);

/// Number of forward passes through chunks of a stage whose tensors are kept when its first
/// backward begins.
[[nodiscard]] std::int64_t kept_passes(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                       std::int64_t stage = 0);

}  // namespace headroom::plan
