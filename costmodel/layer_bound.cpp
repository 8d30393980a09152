#include "costmodel/layer_bound.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "costmodel/estimate.h"
#include "costmodel/memory/allocation_size.h"
#include "model_ir/spec/recording/fewer_layers.h"
#include "runtimes/registry.h"

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

/// The most bytes alive at once, in blocks of the allocator without unused tails.
Bytes peak_live(const ir::RankProgram& program) {
  std::vector<Bytes> sizes(program.blocks);
  Bytes live;
  Bytes peak;
  for (const ir::Event& event : program.events) {
    if (event.kind == ir::EventKind::kAllocate && event.bytes > 0) {
      sizes[event.block] = Bytes{block_size(std::min(event.bytes, kLargestRequest), 0)};
      live += sizes[event.block];
      peak = std::max(peak, live);
    } else if (event.kind == ir::EventKind::kFree) {
      live -= std::exchange(sizes[event.block], Bytes{0});
    }
  }
  return peak;
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
  if (model.recording) {
    std::shared_ptr<const ir::Recording> fewer =
        ir::with_fewer_layers(*model.recording, stretch.begin, count);
    if (fewer == nullptr) {
      return model;
    }
    model.recording = std::move(fewer);
  }
  const auto first = model.layers.begin() + static_cast<std::ptrdiff_t>(stretch.begin);
  model.layers.erase(first, first + static_cast<std::ptrdiff_t>(count));
  return model;
}

std::optional<Bytes> layer_bound(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                 const DeviceSpec& device) {
  if (!ir::runtime_of(plan).grows_by_layers(plan) || model.encoder ||
      plan.recompute_first > 0) {  // The line would join layers of two kinds.
    return std::nullopt;
  }
  const std::size_t every =
      plan.recompute == ir::Recompute::kNone ? 1 : static_cast<std::size_t>(plan.recompute_every);
  const LayerStretch stretch = best_stretch(model.layers, every);
  if (2 * stretch.removable(2) < model.layers.size()) {
    return std::nullopt;
  }
  const std::size_t removed = stretch.removable(1);
  const Result<ir::RankProgram> one =
      lower_replayed(without_layers(model, stretch, removed), plan, device);
  const Result<ir::RankProgram> two =
      lower_replayed(without_layers(model, stretch, removed - stretch.period), plan, device);
  if (!one || !two) {
    return std::nullopt;
  }
  const Bytes smaller = peak_live(*one);
  const Bytes larger = peak_live(*two);
  return smaller + static_cast<std::int64_t>(removed / stretch.period) * (larger - smaller);
}

}  // namespace headroom::cost
