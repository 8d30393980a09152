#pragma once

#include <memory>
#include <string>
#include <vector>

#include "costmodel/estimate.h"
#include "costmodel/time/operator_times.h"
#include "gui/charts/gantt_chart.h"
#include "gui/whatif/scenario.h"
#include "model_ir/base/result.h"

namespace headroom::gui {

/// The rates that the device achieves, for the roofline.
struct Roofs {
  double bytes_per_second = 0;  ///< Device memory, as kernels reach it.
  double flops_per_second = 0;  ///< Products of the plan's type, as kernels reach it.
  QString product_type;         ///< "bf16"
};

/// The last step of a program in time.
struct TimeData {
  std::shared_ptr<const cost::StepEstimate> estimate;  ///< Never null.
  cost::ProgramTime time;
  std::vector<cost::OperatorTime> operators;
  Roofs roofs;
  double begin = 0;  ///< The begin of the last step, in the program's time.
  double length = 0;
};

/// Prices the program of `estimate` on the machine of `scenario`.
///
/// Errors:  those of `load_device` and `load_machine`.
[[nodiscard]] Result<TimeData> time_data(const std::string& config_dir, const Scenario& scenario,
                                         std::shared_ptr<const cost::StepEstimate> estimate);

/// The streams of the rank in its last step. On the compute stream, what it waits for is a bar of
/// its own: exposed communication, or the host.
[[nodiscard]] std::shared_ptr<const GanttData> stream_rows(
    const std::shared_ptr<const TimeData>& data, const Theme& theme);

/// The stages of a pipeline in one step, with its bubbles; null without a pipeline.
[[nodiscard]] std::shared_ptr<const GanttData> stage_rows(
    const std::shared_ptr<const cost::StepEstimate>& estimate, const Theme& theme);

}  // namespace headroom::gui
