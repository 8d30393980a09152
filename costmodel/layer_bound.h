#pragma once

#include <optional>

#include "costmodel/hardware/hardware_spec.h"
#include "model_ir/base/units.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::cost {

/// A lower bound of the peak of allocated bytes, at a twentieth of the price of a replay for a
/// model of 80 layers; nothing where there is none: few layers, two stacks, a framework whose
/// memory does not grow evenly with them.
///
/// Model:   the layers repeat. Two programs with one and two repetitions are lowered and their
///          live bytes counted, without an allocator. Bytes at each moment of a program grow with
///          the number of layers by a constant, so their maximum is convex in it, and the line
///          through two points lies below every point behind them:
///
///              peak |                 /  replayed
///                   |              / .
///                   |          _/ .     line through 1 and 2
///                   |      _-^.
///                   |   -x-
///                   | x
///                   +-1--2------------- layers
///
///          Buckets that fill up break this (`ir::Runtime::grows_by_layers`).
/// Ignores: what the allocator adds.
[[nodiscard]] std::optional<Bytes> layer_bound(const ir::ModelSpec& model,
                                               const ir::ParallelPlan& plan,
                                               const DeviceSpec& device);

}  // namespace headroom::cost
