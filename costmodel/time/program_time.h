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

/// Costs of work on a machine.
struct PriceList {
  std::function<Seconds(const ir::WorkShape&)> time_of;  ///< Time alone, on the device or a link.
  Seconds launch;                                        ///< Host time to launch one kernel.
  std::optional<Seconds> looped{};     ///< The same in a loop of one operator; unset: as `launch`.
  std::optional<Seconds> exchange{};   ///< The same for a token exchange; unset: as `launch`.
  Seconds tensor{};                    ///< For each tensor that a loop makes.
  Seconds graph{};                     ///< Launch of a kernel in a CUDA graph.
  std::vector<std::string> graphed{};  ///< Operators of layers (`Site`) that run in CUDA graphs.
  double taken_ratio = 0;  ///< Share of the multiprocessors that a collective takes from products.
};

/// A range of the compute stream's time: what it computes and what it waits for.
struct WorkTime {
  PartTimes parts;
  double flops = 0;             ///< FLOPs of matrix products and attention.
  double recomputed_flops = 0;  ///< The recomputed share of `flops`.
  Seconds transfers;            ///< The share of `parts` between the stages of a pipeline.
  [[nodiscard]] Seconds time() const { return parts.total(); }
  void add(const WorkTime& other, double factor = 1);
};

/// The times of one rank's program.
struct ProgramTime {
  StreamTimeline timeline;
  ItemRange last_step;             ///< Items of the last of the program's steps.
  WorkTime step;                   ///< The whole step.
  std::int64_t micro_batches = 1;  ///< Micro-batches in the step.
  WorkTime micro_batch;            ///< One micro-batch in the steady state.

  /// Passes through the chunks of a pipeline stage in the steady state (`plan/work_range.h`),
  /// without transfers between stages; and the step without its passes.
  struct Chunk {
    WorkTime forward;
    WorkTime backward;         ///< A whole backward; if none is whole, the sum of its two parts.
    WorkTime backward_input;   ///< Part of a split backward that the previous stage waits for.
    WorkTime backward_weight;  ///< The other part.
    /// The work that a forward saves by running at the same time as a backward of any chunk.
    WorkTime saved{};
  };
  std::vector<Chunk> chunks;
  WorkTime outside;
  /// If a pipeline is filled and drained several times per step: one such run without its passes.
  WorkTime outside_run;
  Seconds transfer;  ///< Time of one transfer to the next stage; 0: none.
};

/// Computes the time of every shape of `program` once, lays the items out on streams and reads off
/// the last step.
///
/// Model:   the last of a program's steps is the steady one. Its time begins when the compute
///          stream has finished the previous step and ends when every stream has finished.
/// Ignores: pipelines, whose stages wait for each other (`step_time.h`).
[[nodiscard]] ProgramTime price_program(const ir::RankProgram& program,
                                        const ir::ParallelPlan& plan, const PriceList& prices);

/// FLOPs of a piece of work, counted as model FLOPs (`model_flops.h`): 2 m n k of a product;
/// attention: 4 (backward 8) per query, key and head dimension, masked or not. 0 for other work.
[[nodiscard]] double flops_of(const ir::WorkShape& shape);

}  // namespace headroom::cost
