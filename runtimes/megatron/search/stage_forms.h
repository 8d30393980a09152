#pragma once

#include <cstdint>
#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "planner/space/axis.h"
#include "runtimes/megatron/plan.h"

/// The ways in which Megatron can assign layers to the stages of a pipeline.
namespace headroom::plan {

/// The properties of a plan that determine how many layers each stage has.
struct StageForm {
  std::int64_t first = 0;  ///< Layers of the first stage; 0: as many as a middle stage.
  std::int64_t last = 0;
  bool embedding = false;  ///< The embedding counts as a layer.
  bool loss = false;
  void apply_to(ir::MegatronPlan& plan) const;
};

/// The forms of a pipeline of `pipeline` stages, even ones first.
///
/// Model:   even forms come first, then those in which the embedding, the loss or both count as
///          layers; all of these can be interleaved. If the stages do not divide the layers and the
///          user does not set the ends, the middle stages hold as few layers as they can (rounded
///          up). The two ends share the remainder in all ways in which neither has more layers than
///          a middle stage. Ends that the user sets are taken as given. Every stage has at least
///          one layer.
/// Source:  Megatron-LM megatron/training/arguments.py, --decoder-first-pipeline-num-layers,
///          --decoder-last-pipeline-num-layers, --account-for-embedding-in-pipeline-split,
///          --account-for-loss-in-pipeline-split.
[[nodiscard]] std::vector<StageForm> stage_forms(std::int64_t layers, std::int64_t pipeline,
                                                 const Constraints& allowed);

/// Numbers of layers of the chunks of all stages.
struct ChunkSizes {
  std::int64_t least = 0;
  std::int64_t most = 0;
  std::int64_t divisor = 0;  ///< The greatest common divisor of all of them.
};
[[nodiscard]] ChunkSizes chunk_sizes(const ir::ParallelPlan& plan, std::int64_t layers);

}  // namespace headroom::plan
