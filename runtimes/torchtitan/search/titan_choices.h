#pragma once

#include <cstdint>
#include <vector>

#include "planner/space/search_space.h"
#include "runtimes/torchtitan/plan.h"

/// What is chosen within a cell of torchtitan's.
namespace headroom::plan {

/// Chunks of a rank that PyTorch keeps gathered at once; more are gathered again in every round.
/// Source: torch/distributed/pipelining/schedules.py, _add_unshard_reshard, max_active_stages.
inline constexpr std::int64_t kActiveChunks = 3;

/// Whether nothing is sharded: one GPU, or DDP, which torchtitan runs beside no other dimension.
[[nodiscard]] bool is_unsharded_titan(const ir::ParallelPlan& plan);

/// Whether the blocks of a plan of these degrees can be compiled, as far as that is modelled.
[[nodiscard]] bool can_compile(const ir::ModelSpec& model, const ir::ParallelPlan& plan);

/// What is chosen within a cell of torchtitan's: schedule, resharding, compilation, recomputation.
struct TitanChoice {
  ir::PipelineKind schedule = ir::PipelineKind::kOneForwardOneBackward;
  std::int64_t stage_layers = 0;  ///< `ir::TitanPlan::stage_layers`.
  std::int64_t runs = 1;          ///< Of the pipeline in a step: gradients accumulate over them.
  bool reshards = true;
  bool compiled = false;
  bool selective = false;  ///< By operators.
  std::int64_t every = 0;  ///< Every Nth layer runs again; 0: none.
  void apply_to(ir::ParallelPlan& plan) const;
};

/// The choices of the cell of `plan`, in the order of the space.
///
/// Model:   schedules as `ir::unsupported_pipeline` takes them, with two chunks on a rank or, where
///          the schedule can have more, as many as PyTorch keeps gathered, unless layers of a chunk
///          are asked for; runs leave a pipeline at least as many micro-batches as ranks. Counts of
///          layers that run again differ from one choice to the next. Backward in two parts goes
///          with eager blocks that keep all.
[[nodiscard]] std::vector<TitanChoice> titan_choices(const SpaceQuestion& question,
                                                     const ir::ParallelPlan& plan);

/// Sequences of one forward pass: of a pipeline those that go through together.
[[nodiscard]] std::int64_t sequences_of_pass(const ir::ParallelPlan& plan);

}  // namespace headroom::plan
