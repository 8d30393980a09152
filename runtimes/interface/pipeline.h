#pragma once

#include <compare>
#include <cstdint>

namespace headroom::ir {

/// The pipeline that a plan's ranks form, and how often a step runs it.
struct PipelineRuns {
  std::int64_t stages = 1;        ///< 1: no pipeline.
  std::int64_t stage_stride = 1;  ///< Distance between the ranks of neighbouring stages.
  /// Micro-batches of one run, from filling the pipeline to draining it.
  std::int64_t micro_batches = 1;
  /// Runs in a step; 1 if gradients accumulate over the pipeline's own micro-batches.
  std::int64_t runs = 1;
  friend bool operator==(const PipelineRuns&, const PipelineRuns&) = default;
};

/// The layers of all chunks of a stage. Stages with the same layers take the same time.
struct StageLayers {
  std::int64_t all = 0;
  std::int64_t sparse = 0;  ///< Layers with experts.
  friend auto operator<=>(const StageLayers&, const StageLayers&) = default;
};

}  // namespace headroom::ir
