#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtimes/interface/runs/measured_runs.h"
#include "validators/measured/row_plan.h"
#include "validators/measured/score.h"

namespace headroom::check {

/// A published run on a real device.
struct PublishedSetting {
  ir::PublishedRun run;
  cost::DeviceSpec device;
};
using PublishedPlanned = std::variant<PublishedSetting, Skip>;

/// Turns a row of `RowForm::kPublished` into a setting, with the reader of its framework.
///
/// Model:   a key that is missing or says something unknown skips the row with "key: 'words'" or
///          "key: not stated".
[[nodiscard]] PublishedPlanned plan_of_published(const MeasuredRow& row, const ScoreTools& tools);

/// What such a row measured, as one phase "run"; what cannot be compared is left in `skips`.
struct PublishedMeasures {
  std::vector<MetricValue> values;
  std::optional<bool> fits;
  std::vector<std::pair<std::optional<Metric>, std::string>> skips;
};
[[nodiscard]] PublishedMeasures published_measures(const ir::JsonValue& measured);

/// Why a measured peak compares with nothing, however well its run is described: its kind is not
/// known, and it says nothing about fitting either.
[[nodiscard]] std::optional<Skip> unknown_measure(const ir::JsonValue& measured);

}  // namespace headroom::check
