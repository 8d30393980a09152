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

/// How long one optimizer step takes, and what that comes to.
struct StepTime {
  Seconds total;
  PartTimes parts;         ///< Of the slowest stage; their sum is `total`.
  std::int64_t stage = 0;  ///< The slowest.
  double tokens = 0;       ///< Of a step, all ranks together.
  std::int64_t gpus = 1;
  double model_flops = 0;     ///< Of a step (`model_flops.h`).
  double hardware_flops = 0;  ///< The same and what is run again for backward.
  /// What the device's datasheet promises for the matrix products' type, dense.
  std::optional<FlopsPerSecond> peak;
  /// The pipeline's passes, of a plan with stages.
  std::optional<PipelineTimeline> pipeline;

  [[nodiscard]] double tokens_per_second_per_gpu() const;
  [[nodiscard]] FlopsPerSecond model_rate() const;     ///< Of each GPU.
  [[nodiscard]] FlopsPerSecond hardware_rate() const;  ///< Of each GPU.
  /// Model and hardware FLOPs utilisation: the rates over `peak`.
  [[nodiscard]] std::optional<double> mfu() const;
  [[nodiscard]] std::optional<double> hfu() const;
};

/// A priced program, and the pipeline stage it stands for.
struct StagePrice {
  std::int64_t stage = 0;
  ProgramTime time;
};

/// The time of a step from the programs of its distinct stages.
///
/// Model:   without a pipeline, the step as replayed and the micro-batches that the program leaves
///          out, each as long as one in the steady state. With one, the passes of each stage laid
///          out by the schedule; a stage that is not priced is like the nearest priced one between
///          the first and the last that holds as many layers; the step ends when every stage has
///          ended and done what it does outside the passes. What the slowest stage does not account
///          for is the bubble.
/// Requires at least one program; those of the first and the last stage among them.
[[nodiscard]] StepTime compose_step(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                    const DeviceSpec& device,
                                    const std::vector<StagePrice>& stages);

/// What a run costs, where a price, a power or a number of tokens is known.
struct RunCosts {
  std::optional<double> dollars_per_gpu_hour;
  std::optional<double> watts_per_gpu;  ///< Drawn on average, with the GPU's share of its node.
  std::optional<double> tokens;         ///< Of a whole training run.
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
