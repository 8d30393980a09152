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
/// Model:   if a key is missing or has an unknown value, the row is skipped with "key: not stated"
///          or "key: 'words'".
[[nodiscard]] PublishedPlanned plan_of_published(const MeasuredRow& row, const ScoreTools& tools);

/// The measurements of such a row, as one phase "run". `skips` says what cannot be compared.
struct PublishedMeasures {
  std::vector<MetricValue> values;
  std::optional<bool> fits;
  std::vector<std::pair<std::optional<Metric>, std::string>> skips;
};
[[nodiscard]] PublishedMeasures published_measures(const ir::JsonValue& measured);

/// Why a measured peak cannot be compared, however well the row describes the run: its metric is
/// not known, and it does not say whether the run fitted either.
[[nodiscard]] std::optional<Skip> unknown_measure(const ir::JsonValue& measured);

}  // namespace headroom::check
