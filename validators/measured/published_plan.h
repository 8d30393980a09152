#pragma once

#include "validators/measured/case_reader.h"
#include "validators/measured/row_plan.h"
#include "validators/measured/score.h"

namespace headroom::check {

/// A published run in the terms of a prediction on a real device.
struct PublishedSetting {
  ir::ModelSpec model;
  ir::ParallelPlan plan;
  cost::DeviceSpec device;
  /// Another modelling code stands in for the row's own: FLOPs are the same, bytes are not.
  bool stands_in = false;
  RunConditions conditions;
};
using PublishedPlanned = std::variant<PublishedSetting, Skip>;

/// `setting` on the device that `tools` find as `gpu`, once a row is read; a skip if the reader met
/// something that it cannot take ("key: 'words'") or the device is not known.
[[nodiscard]] PublishedPlanned on_device(const CaseReader& reader, std::string_view gpu,
                                         const ScoreTools& tools, PublishedSetting setting);

/// Turns a row of `RowForm::kPublished` into a setting.
///
/// Model:   words are those of `published_words.h`; a key that is missing or says something else
///          skips the row with "key: 'words'" or "key: not stated".
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
