#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace headroom::plan {

/// One stage of a chain: a layer, or the loss at the end. Sizes are in slots (see `optimal_chain`).
struct ChainStage {
  double forward = 0;                  ///< Time.
  double backward = 0;                 ///< Time.
  std::int64_t output = 0;             ///< a: what the next stage reads.
  std::int64_t saved = 0;              ///< abar: all that backward needs, the output included.
  std::int64_t gradient = 0;           ///< delta: the gradient of the output.
  std::int64_t forward_transient = 0;  ///< Needed in addition to input and output.
  std::int64_t backward_transient = 0;
  friend bool operator==(const ChainStage&, const ChainStage&) = default;
};
/// Stages from the first to the last. The input of the first is not counted.
using Chain = std::vector<ChainStage>;

/// An operation on a stage. Everything that is stored stays until the backward that needs it.
struct ChainStep {
  enum class Kind : std::uint8_t {
    kForwardKeep,  ///< Forward; its input stays stored, its output is passed on.
    kForwardDrop,  ///< Forward; its input is freed.
    kForwardAll,   ///< Forward; all that backward needs is stored.
    kBackward,
  };
  Kind kind = Kind::kBackward;
  std::size_t stage = 0;
  friend bool operator==(const ChainStep&, const ChainStep&) = default;
};

/// A schedule, its time and its peak.
struct ChainSchedule {
  std::vector<ChainStep> steps;
  double time = 0;
  std::int64_t peak = 0;  ///< Slots.
};

}  // namespace headroom::plan
