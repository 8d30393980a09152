#pragma once

#include <cstdint>
#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "planner/space/axis.h"
#include "runtimes/megatron/plan.h"

/// The ways in which Megatron can deal layers out to the stages of a pipeline.
namespace headroom::plan {

/// What of a plan decides how many layers each stage has.
struct StageForm {
  std::int64_t first = 0;  ///< Of the first stage; 0: as many as the stages between.
  std::int64_t last = 0;
  bool embedding = false;  ///< It counts as a layer.
  bool loss = false;
  void apply_to(ir::MegatronPlan& plan) const;
};

/// The forms of a pipeline of `pipeline` stages, even ones first.
///
/// Model:   even, then with the embedding, the loss or both counted as layers; these can be
///          interleaved. Where the stages do not divide the layers and nothing is said of the ends,
///          those between hold as few layers as they can (rounded up) and the two ends share the
///          rest in all ways in which neither has more than they. Ends that are asked for are taken
///          as given. Every stage has at least one layer.
/// Source:  Megatron-LM megatron/training/arguments.py, --decoder-first-pipeline-num-layers,
///          --decoder-last-pipeline-num-layers, --account-for-embedding-in-pipeline-split,
///          --account-for-loss-in-pipeline-split.
[[nodiscard]] std::vector<StageForm> stage_forms(std::int64_t layers, std::int64_t pipeline,
                                                 const Constraints& allowed);

/// Layers of the chunks of all stages.
struct ChunkSizes {
  std::int64_t least = 0;
  std::int64_t most = 0;
  std::int64_t divisor = 0;  ///< The greatest number that divides all of them.
};
[[nodiscard]] ChunkSizes chunk_sizes(const ir::MegatronPlan& plan, std::int64_t layers);

}  // namespace headroom::plan
