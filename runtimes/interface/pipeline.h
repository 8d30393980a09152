#pragma once

#include <compare>
#include <cstdint>

namespace headroom::ir {

/// The pipeline that a plan's ranks form, and how often a step runs it.
struct PipelineRuns {
  std::int64_t stages = 1;        ///< 1: there is none.
  std::int64_t stage_stride = 1;  ///< How many ranks apart the stages are.
  /// Micro-batches that go through the pipeline each time it is filled and drained.
  std::int64_t micro_batches = 1;
  /// Times that it is filled and drained in a step; 1 where gradients accumulate over its own
  /// micro-batches.
  std::int64_t runs = 1;
  friend bool operator==(const PipelineRuns&, const PipelineRuns&) = default;
};

/// What a stage holds, of all its chunks: stages that hold as much take as long.
struct StageLayers {
  std::int64_t all = 0;
  std::int64_t sparse = 0;  ///< Those with experts.
  friend auto operator<=>(const StageLayers&, const StageLayers&) = default;
};

}  // namespace headroom::ir
