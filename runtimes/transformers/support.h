#pragma once

#include <optional>

#include "model_ir/base/device_traits.h"
#include "model_ir/base/error.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir::transformers {

/// Why the library's modelling code under `plan` cannot be lowered, if it cannot. An option that is
/// not modelled is an error, never a silent approximation.
[[nodiscard]] std::optional<Error> unsupported(const ModelSpec& spec, const ParallelPlan& plan,
                                               const DeviceTraits& device);

/// What no framework that shards the weights can do with the model.
[[nodiscard]] std::optional<Error> sharding_trouble(const ModelSpec& spec,
                                                    const ParallelPlan& plan);

}  // namespace headroom::ir::transformers
