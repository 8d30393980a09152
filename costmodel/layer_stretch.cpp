#include "costmodel/layer_stretch.h"

#include <numeric>

namespace headroom::cost {
namespace {

/// The longest stretch with this period.
LayerStretch stretch_of(const std::vector<ir::LayerSpec>& layers, std::size_t period) {
  LayerStretch longest{.begin = 0, .length = 0, .period = period};
  std::size_t begin = 0;
  for (std::size_t at = period; at <= layers.size(); ++at) {
    if (at < layers.size() && layers[at] == layers[at - period]) {
      continue;
    }
    if (at - begin > longest.length) {
      longest = {.begin = begin, .length = at - begin, .period = period};
    }
    begin = at + 1 - period;
  }
  return longest;
}

}  // namespace

LayerStretch best_stretch(const std::vector<ir::LayerSpec>& layers, std::size_t every) {
  constexpr std::size_t kLongestPeriod = 8;
  LayerStretch best;
  for (std::size_t period = 1; period <= kLongestPeriod; ++period) {
    LayerStretch stretch = stretch_of(layers, period);
    stretch.period = std::lcm(period, every);
    if (stretch.removable(2) > best.removable(2)) {
      best = stretch;
    }
  }
  return best;
}

ir::ModelSpec without_layers(ir::ModelSpec model, const LayerStretch& stretch, std::size_t count) {
  const auto first = model.layers.begin() + static_cast<std::ptrdiff_t>(stretch.begin);
  model.layers.erase(first, first + static_cast<std::ptrdiff_t>(count));
  return model;
}

}  // namespace headroom::cost
