#pragma once

#include <cstdint>
#include <vector>

#include "model_ir/base/result.h"
#include "model_ir/base/units.h"
#include "model_ir/plan/pipeline_schedule.h"

namespace headroom::cost {

/// Times of one micro-batch on one chunk of one stage.
struct ChunkTimes {
  Seconds forward;
  Seconds backward_input;   ///< The part that the previous stage waits for.
  Seconds backward_weight;  ///< The other part; a whole backward takes both.
  Seconds saved{};          ///< A forward saves it by running at the same time as a backward.
};

/// How stages send tensors to each other.
struct PipelineTransfer {
  Seconds time;           ///< From one stage to the next.
  bool blocking = false;  ///< The sender does nothing else during a transfer.
};

struct PipelineTimes {
  std::vector<std::vector<ChunkTimes>> stages;  ///< [stage][chunk]
  PipelineTransfer transfer;
};

/// Begin and end of an action.
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

/// Computes begin and end of every action of a schedule.
///
/// Model:   a stage runs its actions in their order, each as soon as its input is there: the
///          activations of the previous chunk, or the gradient of the next chunk, plus `transfer`
///          if that chunk is on another stage. Actions that run together begin and end together and
///          take the sum of their times, less what the forward saves.
/// Errors:  those of `check_pipeline`; kInvalidArgument if the times do not match the number of
///          stages and chunks.
[[nodiscard]] Result<PipelineTimeline> pipeline_makespan(const ir::PipelineShape& shape,
                                                         const PipelineTimes& times);

}  // namespace headroom::cost
