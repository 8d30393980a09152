#pragma once

#include <cstdint>
#include <vector>

#include "planner/space/search_space.h"
#include "runtimes/torchtitan/plan.h"

/// The choices within a cell of torchtitan.
namespace headroom::plan {

/// Chunks of a rank that PyTorch keeps gathered at the same time. Further chunks are gathered again
/// in every round.
/// Source: torch/distributed/pipelining/schedules.py, _add_unshard_reshard, max_active_stages.
inline constexpr std::int64_t kActiveChunks = 3;

/// Whether nothing is sharded: one GPU, or DDP, which torchtitan combines with no other dimension.
[[nodiscard]] bool is_unsharded_titan(const ir::ParallelPlan& plan);

/// Whether the blocks of a plan with these degrees can be compiled, as far as that is modelled.
[[nodiscard]] bool can_compile(const ir::ModelSpec& model, const ir::ParallelPlan& plan);

/// A choice within a cell of torchtitan: schedule, resharding, compilation, recomputation.
struct TitanChoice {
  ir::PipelineKind schedule = ir::PipelineKind::kOneForwardOneBackward;
  std::int64_t stage_layers = 0;  ///< `ir::TitanPlan::stage_layers`.
  std::int64_t runs = 1;  ///< Runs of the pipeline in a step, over which gradients accumulate.
  bool reshards = true;
  bool compiled = false;
  bool selective = false;  ///< Selective checkpointing by operators.
  std::int64_t every = 0;  ///< Every Nth layer is recomputed; 0: none.
  void apply_to(ir::ParallelPlan& plan) const;
};

/// The choices of the cell of `plan`, in the order of the space.
///
/// Model:   schedules are those that `ir::unsupported_pipeline` accepts. A rank has two chunks or,
///          if the schedule supports more, as many as PyTorch keeps gathered, unless the user sets
///          the layers of a chunk. Runs leave a pipeline at least as many micro-batches as ranks.
///          The numbers of recomputed layers differ from one choice to the next. Split backward
///          requires eager blocks that keep everything.
[[nodiscard]] std::vector<TitanChoice> titan_choices(const SpaceQuestion& question,
                                                     const ir::ParallelPlan& plan);

/// Sequences of one forward pass. In a pipeline, these are the sequences of a micro-batch.
[[nodiscard]] std::int64_t sequences_of_pass(const ir::ParallelPlan& plan);

}  // namespace headroom::plan
