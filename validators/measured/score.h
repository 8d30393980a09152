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

/// Which rows and metrics to compare. An empty choice selects all.
struct ScoreFilter {
  std::optional<std::string> source;
  std::optional<std::string> runtime;
  std::optional<Metric> metric;
};

/// Compares one row of `RowForm::kCase` with its prediction.
///
/// Model:   if the verdict is wrong, it is the row's only score. Phases are matched by name. A
///          phase that the prediction lacks is skipped, and so is a metric that it does not model.
[[nodiscard]] Scoring score_case(const MeasuredRow& row, const RowLabels& labels,
                                 const Prediction& prediction);

/// Finds a GPU of the catalogue by name.
using DeviceFinder = std::function<Result<cost::DeviceSpec>(const std::string& name)>;

/// Estimates a plan on a real device: `cost::estimate`.
using Estimator =
    std::function<Result<cost::StepEstimate>(const ir::ModelSpec&, const ir::ParallelPlan&,
                                             const cost::DeviceSpec&, const ir::RunConditions&)>;

/// Finds the machine of a GPU: `cost::load_machine`.
using MachineFinder = std::function<Result<cost::Machine>(const cost::DeviceSpec& device)>;

/// The time of a case's last step on a GPU of the catalogue.
using StepTimer =
    std::function<Result<Seconds>(const ir::RunSetting&, const cost::DeviceSpec& device)>;

/// The functions that scoring needs from outside.
struct ScoreTools {
  Predictor predict;         ///< For rows whose process had the device to itself.
  DeviceFinder find_device;  ///< For published rows.
  Estimator estimate;        ///< For published rows.
  StepTimer step_time{};     ///< For cases timed on a GPU; empty: no times are compared.
};

/// Predicts and compares one row of `RowForm::kPublished`.
[[nodiscard]] Scoring score_published(const MeasuredRow& row, const RowLabels& labels,
                                      const ScoreTools& tools);

/// Predicts and compares one row of any form.
[[nodiscard]] Scoring score_row(const MeasuredRow& row, const ScoreTools& tools);

/// Predicts and compares all rows that `filter` selects, on `threads` threads. The result does not
/// depend on the number of threads.
[[nodiscard]] Scoring score_rows(const std::vector<MeasuredRow>& rows, const ScoreTools& tools,
                                 const ScoreFilter& filter, int threads);

}  // namespace headroom::check
