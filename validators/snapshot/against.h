#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "costmodel/estimate.h"
#include "model_ir/base/units.h"
#include "validators/snapshot/stack_rules.h"
#include "validators/snapshot/summary.h"

namespace headroom::check {

/// Blocks of one size that only the prediction or only the snapshot has at its peak.
struct SizeDifference {
  Bytes requested;        ///< Of one block.
  std::size_t count = 0;  ///< How many there are beyond those of the other side.
  BlockUse use = BlockUse::kOther;
  std::string name;  ///< The predicted operator, or the line that asked.
};

/// A predicted run beside a snapshot, each at its peak.
struct PeakComparison {
  Bytes predicted;
  Bytes measured;
  std::string predicted_moment;  ///< "step 2, backward: log_softmax"
  UseBytes predicted_by_use{};
  UseBytes measured_by_use{};
  std::size_t matched = 0;  ///< Blocks of which the other side has one of the same size.
  Bytes matched_bytes;
  std::vector<SizeDifference> only_predicted;  ///< Largest sum first.
  std::vector<SizeDifference> only_measured;
};

/// What a predicted role is in a snapshot, where stacks tell fewer kinds of blocks apart: buffers
/// are parameters, master parameters are optimizer states, and logits and inputs are activations.
[[nodiscard]] BlockUse use_of(ir::TensorRole role);

/// Compares the blocks that are alive at the peaks, by use and by size.
///
/// Model:   a size is what was asked for, before rounding. Of blocks of one size, as many as both
///          sides have are matched, whatever they are for.
/// Requires that `estimate.timeline` is a replay of `estimate.program`.
[[nodiscard]] PeakComparison compare_peaks(const cost::StepEstimate& estimate,
                                           const DeviceSummary& measured,
                                           const StackSorter& sorter);

}  // namespace headroom::check
