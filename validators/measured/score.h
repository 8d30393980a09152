#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/estimate.h"
#include "costmodel/hardware/hardware_spec.h"
#include "costmodel/time/machine.h"
#include "validators/measured/predict.h"
#include "validators/measured/row.h"
#include "validators/measured/row_plan.h"
#include "validators/measured/row_scorer.h"

namespace headroom::check {

/// Which rows and metrics to compare; an empty choice means all.
struct ScoreFilter {
  std::optional<std::string> source;
  std::optional<std::string> runtime;
  std::optional<Metric> metric;
};

/// Compares one row of `RowForm::kCase` with its prediction.
///
/// Model:   a verdict that is wrong is the row's only score. Phases are matched by name; a phase
///          that the prediction lacks, or a metric that it does not model, is skipped.
[[nodiscard]] Scoring score_case(const MeasuredRow& row, const RowLabels& labels,
                                 const Prediction& prediction);

/// Finds a GPU of the catalogue by name.
using DeviceFinder = std::function<Result<cost::DeviceSpec>(const std::string& name)>;

/// Judges a plan on a real device: `cost::estimate`.
using Estimator =
    std::function<Result<cost::StepEstimate>(const ir::ModelSpec&, const ir::ParallelPlan&,
                                             const cost::DeviceSpec&, const ir::RunConditions&)>;

/// Finds the machine that a GPU stands in: `cost::load_machine`.
using MachineFinder = std::function<Result<cost::Machine>(const cost::DeviceSpec& device)>;

/// The time of a case's last step on a GPU of the catalogue.
using StepTimer =
    std::function<Result<Seconds>(const ir::RunSetting&, const cost::DeviceSpec& device)>;

/// What a run needs from outside.
struct ScoreTools {
  Predictor predict;         ///< For rows whose allocator had the device to itself.
  DeviceFinder find_device;  ///< For published rows.
  Estimator estimate;        ///< For published rows.
  StepTimer step_time{};     ///< For cases that were timed on a GPU; empty: no times are compared.
};

/// Predicts and compares one row of `RowForm::kPublished`.
[[nodiscard]] Scoring score_published(const MeasuredRow& row, const RowLabels& labels,
                                      const ScoreTools& tools);

/// Predicts and compares one row of any form.
[[nodiscard]] Scoring score_row(const MeasuredRow& row, const ScoreTools& tools);

/// Predicts and compares all rows that `filter` lets through, on `threads` threads. The result does
/// not depend on their number.
[[nodiscard]] Scoring score_rows(const std::vector<MeasuredRow>& rows, const ScoreTools& tools,
                                 const ScoreFilter& filter, int threads);

}  // namespace headroom::check
