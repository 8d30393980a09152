#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model_ir/plan/pipeline_schedule.h"
#include "runtimes/torchtitan/pipeline_stage.h"

namespace headroom::ir::torchtitan {

/// What a rank of the pipeline does next: a pass of one chunk, or what FSDP does around its passes.
struct PipelineStep {
  enum class Kind : std::uint8_t { kUnshard, kReshard, kPass, kReduce };
  Kind kind = Kind::kPass;
  PipelineAction action;  ///< Its chunk alone unless it is a pass.
  friend bool operator==(const PipelineStep&, const PipelineStep&) = default;
};

/// Puts gathers, releases and reductions of chunks among the passes: the next three chunks are
/// gathered, others let go, and gradients reduced behind the last backward of a chunk.
/// Source: pytorch/pytorch 2.11 torch/distributed/pipelining/schedules.py, _add_unshard_reshard and
///         _add_reduce_grad.
[[nodiscard]] std::vector<PipelineStep> with_gathers(std::span<const PipelineAction> actions,
                                                     std::int64_t micro_batches);

/// The stages of one rank and the schedule that runs micro-batches through them.
///
/// Model:  GPipe and 1F1B gather parameters when a pass needs them; schedules of several stages
///         before, on the compute stream. Names live as long as Python's.
/// Source: schedules.py, ScheduleGPipe, Schedule1F1B and _PipelineScheduleRuntime.
class Pipeline {
 public:
  /// `parts`: of `rank`, in the order of `titan_chunks`.
  Pipeline(torch::Eager& eager, TensorMesh& mesh, std::span<const std::unique_ptr<ModelPart>> parts,
           std::int64_t rank);

  /// One step on ids and labels [B, S], which it cuts into micro-batches. Returns the losses, which
  /// only the rank with the last stage has.
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
  Pieces losses_;  ///< _internal_losses
};

}  // namespace headroom::ir::torchtitan
