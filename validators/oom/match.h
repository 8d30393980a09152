#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "costmodel/estimate.h"
#include "validators/oom/message.h"

namespace headroom::check {

/// The allocation of a predicted run that a message fits best.
struct OomMatch {
  std::size_t event = 0;
  ir::PhaseName phase;
  std::string moment;  ///< "step 1, backward, layer 31: silu".
  cost::PeakSite site;
  ir::TensorRole role = ir::TensorRole::kTemporary;
  Bytes requested;           ///< As the operator asks for it.
  Bytes segment;             ///< As the message would print it.
  Bytes allocated;           ///< Predicted, before the request.
  std::size_t of_size = 0;   ///< How many allocations of the run have this size.
  std::optional<Bytes> off;  ///< allocated - that of the message, if it says so.
  /// Whether the size is that of the message. If none is, the match is the allocation of the
  /// closest amount allocated and says little.
  bool same_size = false;
};

/// Finds the request of a message in a replayed run; nothing if the run allocates nothing.
///
/// Model:   of the allocations whose segment has the printed size, the one before which the
///          allocated bytes are closest to those of the message; without these, the one with most
///          allocated before. If none has that size, the same among all that are no smaller than
///          half of it, then among all.
/// Requires that `estimate.timeline` is a replay of `estimate.program`.
[[nodiscard]] std::optional<OomMatch> match_of(const OutOfMemoryMessage& message,
                                               const cost::StepEstimate& estimate,
                                               const ir::AllocatorSettings& settings);

/// Whether the prediction and the message agree: the size is the same, and the allocated bytes
/// differ by at most 2 % of those of the message, about the spread of measured peaks
/// (docs/accuracy.md).
[[nodiscard]] bool agrees(const OomMatch& match, const OutOfMemoryMessage& message);

}  // namespace headroom::check
