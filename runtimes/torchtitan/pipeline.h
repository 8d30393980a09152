#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model_ir/plan/pipeline_schedule.h"
#include "runtimes/torchtitan/pipeline_stage.h"

namespace headroom::ir::torchtitan {

/// The next step of a pipeline rank: a pass through one chunk, or what FSDP does before and after
/// it.
struct PipelineStep {
  enum class Kind : std::uint8_t { kUnshard, kReshard, kPass, kReduce };
  Kind kind = Kind::kPass;
  PipelineAction action;  ///< Only its chunk is used unless the step is a pass.
  friend bool operator==(const PipelineStep&, const PipelineStep&) = default;
};

/// Inserts all-gathers, resharding and gradient reductions of chunks between the passes. The next
/// three chunks are gathered, and the others are resharded. Gradients are reduced after the last
/// backward of a chunk.
/// Source: pytorch/pytorch 2.11 torch/distributed/pipelining/schedules.py, _add_unshard_reshard and
///         _add_reduce_grad.
[[nodiscard]] std::vector<PipelineStep> with_gathers(std::span<const PipelineAction> actions,
                                                     std::int64_t micro_batches);

/// The stages of one rank and the schedule that runs micro-batches through them.
///
/// Model:  GPipe and 1F1B gather parameters when a pass needs them. Schedules with several stages
///         per rank gather them earlier, on the compute stream. Local names keep tensors alive as
///         long as in Python.
/// Source: schedules.py, ScheduleGPipe, Schedule1F1B and _PipelineScheduleRuntime.
class Pipeline {
 public:
  /// `parts`: the parts of `rank`, in the order of `titan_chunks`.
  Pipeline(torch::Eager& eager, TensorMesh& mesh, std::span<const std::unique_ptr<ModelPart>> parts,
           std::int64_t rank);

  /// Runs one step on ids and labels [B, S], which it splits into micro-batches. Returns the
  /// losses, which only the rank with the last stage has.
  [[nodiscard]] std::vector<torch::Tensor> step(const torch::Tensor& ids,
                                                const torch::Tensor& labels);

 private:
  using Pieces = std::vector<torch::Tensor>;
  [[nodiscard]] Pieces split(const torch::Tensor& whole) const;
  void prepare();
  void run_one_stage();
  void run_stages();
  void run_pass(const PipelineAction& action);
  [[nodiscard]] torch::Tensor run_forward(const PipelineAction& action);
  [[nodiscard]] torch::Tensor run_backward(const PipelineAction& action);
  void run_weight(const PipelineAction& action);
  [[nodiscard]] PipelineStage* neighbour(const PipelineStage& stage, std::int64_t step);

  torch::Eager& eager_;
  const ParallelPlan& plan_;
  PipelineShape shape_;
  std::vector<PipelineAction> actions_;
  std::vector<std::unique_ptr<PipelineStage>> stages_;
  bool prepared_ = false;
  Pieces ids_;
  Pieces labels_;
  Pieces losses_;  ///< _internal_losses.
};

}  // namespace headroom::ir::torchtitan
