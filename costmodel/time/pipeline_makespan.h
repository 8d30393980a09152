#pragma once

#include <cstdint>
#include <vector>

#include "model_ir/base/result.h"
#include "model_ir/base/units.h"
#include "model_ir/plan/pipeline_schedule.h"

namespace headroom::cost {

/// What one micro-batch takes on one chunk of one stage.
struct ChunkTimes {
  Seconds forward;
  Seconds backward_input;   ///< The part that the stage before waits for.
  Seconds backward_weight;  ///< The rest; a whole backward takes both.
};

/// How stages hand tensors to each other.
struct PipelineTransfer {
  Seconds time;           ///< From one stage to the next.
  bool blocking = false;  ///< The sender does nothing else meanwhile.
};

struct PipelineTimes {
  std::vector<std::vector<ChunkTimes>> stages;  ///< [stage][chunk]
  PipelineTransfer transfer;
};

/// When an action runs.
struct ActionSpan {
  ir::PipelineAction action;
  Seconds begin;
  Seconds end;
};

/// One step of a pipeline, from the first forward to the last backward.
struct PipelineTimeline {
  Seconds total;
  std::vector<std::vector<ActionSpan>> stages;  ///< In order.
  std::vector<Seconds> busy;                    ///< Of each stage; without transfers.
};

/// Lays the actions of a schedule out in time.
///
/// Model:   a stage runs its actions in their order, each as soon as what it needs is there: the
///          activations of the chunk before, or the gradient of the chunk after, `transfer` later
///          if that is on another stage. Actions that run with each other begin and end together
///          and take as long as both.
/// Errors:  those of `check_pipeline`; kInvalidArgument where the times are not those of so many
///          stages and chunks.
[[nodiscard]] Result<PipelineTimeline> pipeline_makespan(const ir::PipelineShape& shape,
                                                         const PipelineTimes& times);

/// What `stage` idles between its own first and last action, transfers included.
[[nodiscard]] Seconds inner_bubble(const PipelineTimeline& timeline, std::size_t stage);

}  // namespace headroom::cost
