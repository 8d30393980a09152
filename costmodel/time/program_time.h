#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/time/step_parts.h"
#include "costmodel/time/stream_replay.h"
#include "model_ir/base/units.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"

namespace headroom::cost {

/// What work costs on a machine.
struct PriceList {
  std::function<Seconds(const ir::WorkShape&)> time_of;  ///< Alone, on the device or its links.
  Seconds launch;                                        ///< Of one kernel, by the host.
  std::optional<Seconds> looped{};     ///< The same in a loop inside an operator; unset: no less.
  std::optional<Seconds> exchange{};   ///< Of a token exchange; unset: as `launch`.
  Seconds tensor{};                    ///< For each tensor that a loop makes.
  Seconds graph{};                     ///< The same in a graph.
  std::vector<std::string> graphed{};  ///< Operators of layers (`Site`) that are in graphs.
  double taken_ratio = 0;  ///< Of the multiprocessors, by a collective, from products meanwhile.
};

/// A stretch of the compute stream's time: what it computes and what it waits for.
struct WorkTime {
  PartTimes parts;
  double flops = 0;             ///< Of matrix products and attention.
  double recomputed_flops = 0;  ///< Of these: run again for backward.
  Seconds transfers;            ///< Of `parts`: between the stages of a pipeline.
  [[nodiscard]] Seconds time() const { return parts.total(); }
  void add(const WorkTime& other, double factor = 1);
};

/// One rank's program, priced.
struct ProgramTime {
  StreamTimeline timeline;
  ItemRange last_step;             ///< Items of the last of the program's steps.
  WorkTime step;                   ///< All of it.
  std::int64_t micro_batches = 1;  ///< In it.
  WorkTime micro_batch;            ///< One of them in the steady state.

  /// Passes through the chunks of a pipeline stage in the steady state (`plan/work_range.h`),
  /// without transfers between stages; and the step without its passes.
  struct Chunk {
    WorkTime forward;
    WorkTime backward;         ///< Whole; if none is, its two parts together.
    WorkTime backward_input;   ///< Of a backward in parts: for the stage before,
    WorkTime backward_weight;  ///< and the rest.
  };
  std::vector<Chunk> chunks;
  WorkTime outside;
  /// Where a pipeline is filled and drained several times in a step: one of these without its
  /// passes.
  WorkTime outside_run;
  Seconds transfer;  ///< One transfer to the next stage; 0: there is none.
};

/// Prices every shape of `program` once, lays its items out on streams and reads the last step off.
///
/// Model:   the last of a program's steps is the steady one. Its time runs from the end of what the
///          compute stream did before to the end of every stream.
/// Ignores: pipelines, whose stages wait for each other (`step_time.h`).
[[nodiscard]] ProgramTime price_program(const ir::RankProgram& program,
                                        const ir::ParallelPlan& plan, const PriceList& prices);

/// FLOPs of a piece of work: 2 m n k of a product; of attention 4 (backward 8) for every pair of
/// query and key and head dimension, masked or not, as model FLOPs are counted
/// (`model_flops.h`). 0 for other work.
[[nodiscard]] double flops_of(const ir::WorkShape& shape);

}  // namespace headroom::cost
