#pragma once

#include <cstddef>
#include <vector>

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

/// `model` without `count` layers of the stretch.
[[nodiscard]] ir::ModelSpec without_layers(ir::ModelSpec model, const LayerStretch& stretch,
                                           std::size_t count);

}  // namespace headroom::cost
