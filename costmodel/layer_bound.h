#pragma once

#include <optional>

#include "costmodel/hardware/hardware_spec.h"
#include "model_ir/base/units.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::cost {

/// A lower bound of the peak of allocated bytes. For a model of 80 layers it costs a twentieth of a
/// replay. Nothing if no bound exists: few layers, two stacks, or a framework whose memory does not
/// grow evenly with the layers.
///
/// Model:   the layers repeat. Two programs with one and two repetitions are lowered and their live
///          bytes counted, without an allocator. At each moment of a program the bytes are linear
///          in the number of layers, so their maximum is convex, and the line through two points
///          lies below every later point:
///
///              peak |                 /  replayed
///                   |              / .
///                   |          _/ .     line through 1 and 2
///                   |      _-^.
///                   |   -x-
///                   | x
///                   +-1--2------------- layers
///
///          Buckets that fill up break this property (`ir::Runtime::grows_by_layers`).
/// Ignores: the allocator's overhead.
[[nodiscard]] std::optional<Bytes> layer_bound(const ir::ModelSpec& model,
                                               const ir::ParallelPlan& plan,
                                               const DeviceSpec& device);

}  // namespace headroom::cost
