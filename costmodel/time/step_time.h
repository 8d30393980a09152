#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "costmodel/hardware/hardware_spec.h"
#include "costmodel/time/pipeline_makespan.h"
#include "costmodel/time/program_time.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::cost {

/// The time of one optimizer step, and the rates that follow.
struct StepTime {
  Seconds total;
  PartTimes parts;         ///< Times of the slowest stage; their sum is `total`.
  std::int64_t stage = 0;  ///< The slowest.
  double tokens = 0;       ///< Tokens per step, all ranks together.
  std::int64_t gpus = 1;
  double model_flops = 0;     ///< FLOPs per step (`model_flops.h`).
  double hardware_flops = 0;  ///< The same plus recomputation.
  /// The datasheet's dense rate for the matrix products' type.
  std::optional<FlopsPerSecond> peak;
  /// The pipeline's passes, if the plan has stages.
  std::optional<PipelineTimeline> pipeline;

  [[nodiscard]] double tokens_per_second_per_gpu() const;
  [[nodiscard]] FlopsPerSecond model_rate() const;     ///< Per GPU.
  [[nodiscard]] FlopsPerSecond hardware_rate() const;  ///< Per GPU.
  /// Model and hardware FLOPs utilisation: the rates divided by `peak`.
  [[nodiscard]] std::optional<double> mfu() const;
  [[nodiscard]] std::optional<double> hfu() const;
};

/// The times of a program, and the pipeline stage it belongs to.
struct StagePrice {
  std::int64_t stage = 0;
  ProgramTime time;
};

/// The time of a step from the programs of its distinct stages.
///
/// Model:   without a pipeline, the step as replayed plus the micro-batches that the program leaves
///          out, each as long as one in the steady state. With a pipeline, the schedule lays out
///          the passes of each stage. A stage without its own program uses that of the nearest
///          inner stage with the same number of layers. The step ends when every stage has finished
///          its passes and its work outside them. The part of the step that the slowest stage's
///          work does not fill is the bubble.
/// Requires at least one program; the first and the last stage must have one.
[[nodiscard]] StepTime compose_step(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                    const DeviceSpec& device,
                                    const std::vector<StagePrice>& stages);

/// What a run costs, if a price, a power or a number of tokens is known.
struct RunCosts {
  std::optional<double> dollars_per_gpu_hour;
  std::optional<double> watts_per_gpu;  ///< Average power, including the GPU's share of its node.
  std::optional<double> tokens;         ///< Tokens of a whole training run.
};
struct RunFigures {
  std::optional<double> tokens_per_dollar;
  std::optional<double> tokens_per_joule;
  std::optional<double> days;            ///< For the run's tokens.
  std::optional<double> dollars;         ///< For the run's tokens.
  std::optional<double> megawatt_hours;  ///< For the run's tokens.
};
[[nodiscard]] RunFigures run_figures(const StepTime& step, const RunCosts& costs);

}  // namespace headroom::cost
