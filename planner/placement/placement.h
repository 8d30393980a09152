#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace headroom::plan {

/// One way to treat the activations of a layer between its forward and its backward: keep
/// everything, recompute a part, or copy them to the host.
struct LayerOption {
  double again = 0;        ///< Recomputation time of a micro-batch, in seconds.
  double copy = 0;         ///< Time on the host link in each direction, in seconds.
  std::int64_t kept = 0;   ///< Bytes that one pass keeps.
  std::int64_t fixed = 0;  ///< Bytes at the peak if a layer has this, besides those passes keep.
};

/// Layers that are alike.
struct LayerKind {
  std::int64_t layers = 0;  ///< Number in a model chunk.
  std::vector<LayerOption> options;
};

/// The activations of the layers of one pipeline stage, and the memory for them.
struct PlacementQuestion {
  std::vector<LayerKind> kinds;
  std::int64_t passes = 1;  ///< Passes through a chunk whose activations are alive at the peak.
  std::int64_t budget = 0;  ///< Bytes.
  double forward = 0;       ///< Seconds of a micro-batch without recomputation.
  double backward = 0;
};

/// The number of layers of each kind that have each option, with the resulting time and memory.
struct Placement {
  std::vector<std::vector<std::int64_t>> counts;  ///< By kind, then by option.
  double seconds = 0;                             ///< Time of a micro-batch.
  std::int64_t bytes = 0;
};

/// The time and memory of `counts`.
///
/// Model:   bytes = passes * sum of kept + the greatest fixed of an option that some layer has;
///          seconds = max(forward, copies) + max(backward + again, copies). Copies overlap
///          computation. The copies of all layers run one after the other on one link in each
///          direction, so what exceeds a micro-batch's forward or backward is exposed.
/// Ignores: which layers of a kind have which option. `fixed` is its value before layers whose
/// backward runs earlier have freed anything, so no order takes more.
[[nodiscard]] Placement placement_of(const PlacementQuestion& question,
                                     std::vector<std::vector<std::int64_t>> counts);

/// A fastest placement whose bytes are within the budget; nothing if there is none.
///
/// Model:   for every limit on `fixed` that an option sets, and for every number of layers that
///          copy, the recomputation is a knapsack of the other layers. For a price of mu >= 0
///          seconds per byte it is at least the sum of each layer's least again + mu kept, minus mu
///          times the available bytes. Branch and bound over counts with the best mu; the last two
///          options of the last kind are filled by division.
/// Requires: kinds with at least one option each, figures >= 0, passes >= 1.
[[nodiscard]] std::optional<Placement> best_placement(const PlacementQuestion& question);

}  // namespace headroom::plan
