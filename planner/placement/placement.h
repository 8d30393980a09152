#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace headroom::plan {

/// One thing that can be done to a layer between its forward and its backward: keep everything, run
/// part of it again, copy it to the host.
struct LayerOption {
  double again = 0;        ///< Seconds that run again for backward, of a micro-batch.
  double copy = 0;         ///< Seconds of the host link, each way.
  std::int64_t kept = 0;   ///< Bytes kept of one pass.
  std::int64_t fixed = 0;  ///< Bytes at the peak besides what passes keep, where a layer has this.
};

/// Layers that are alike.
struct LayerKind {
  std::int64_t layers = 0;  ///< Of a model chunk.
  std::vector<LayerOption> options;
};

/// What one pipeline stage does with the activations of its layers.
struct PlacementQuestion {
  std::vector<LayerKind> kinds;
  std::int64_t passes = 1;  ///< Passes through a chunk that are kept at the peak.
  std::int64_t budget = 0;  ///< Bytes.
  double forward = 0;       ///< Seconds of a micro-batch when nothing runs again.
  double backward = 0;
};

/// How many layers of each kind have each option, and what that comes to.
struct Placement {
  std::vector<std::vector<std::int64_t>> counts;  ///< By kind, then by option.
  double seconds = 0;                             ///< Of a micro-batch.
  std::int64_t bytes = 0;
};

/// What `counts` come to.
///
/// Model:   bytes = passes * sum of kept + the greatest fixed of an option that some layer has;
///          seconds = max(forward, copies) + max(backward + again, copies): copies run beside the
///          computation, those of all layers one after the other on one link in each direction, so
///          what does not hide behind a micro-batch's forward or backward shows.
/// Ignores: which layer of a kind has which option. `fixed` is what it is when the layers that run
///          backward before have let go of nothing, so no order takes more.
[[nodiscard]] Placement placement_of(const PlacementQuestion& question,
                                     std::vector<std::vector<std::int64_t>> counts);

/// A quickest placement whose bytes are within the budget; nothing if there is none.
///
/// Model:   for every limit on `fixed` that an option sets and every number of layers that copy,
///          what runs again is a knapsack of the other layers: with mu >= 0 seconds for a byte it
///          is at least the sum of each layer's least again + mu kept, less mu times the bytes to
///          spare. Branch and bound over counts with the best mu; the last two options of the last
///          kind are filled by division.
/// Requires kinds with at least one option each, figures >= 0, passes >= 1.
[[nodiscard]] std::optional<Placement> best_placement(const PlacementQuestion& question);

}  // namespace headroom::plan
