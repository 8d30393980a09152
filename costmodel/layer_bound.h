#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "costmodel/hardware/hardware_spec.h"
#include "model_ir/base/units.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::cost {

/// A stretch of layers that repeats every `period` layers.
struct LayerStretch {
  std::size_t begin = 0;
  std::size_t length = 0;
  std::size_t period = 1;

  /// Layers that can be removed if `kept` periods stay.
  [[nodiscard]] std::size_t removable(std::size_t kept) const {
    const std::size_t periods = length / period;
    return periods > kept ? (periods - kept) * period : 0;
  }
};

/// The stretch from which most layers can be removed if two periods stay. If every `every`-th layer
/// is treated differently, periods are multiples of `every`.
[[nodiscard]] LayerStretch best_stretch(const std::vector<ir::LayerSpec>& layers,
                                        std::size_t every);

/// `model` without `count` layers of the stretch; `model` itself if a recording does not run
/// without them.
[[nodiscard]] ir::ModelSpec without_layers(ir::ModelSpec model, const LayerStretch& stretch,
                                           std::size_t count);

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
