#pragma once

#include <string>

#include "cli/terminal.h"
#include "cli/time_options.h"
#include "costmodel/confidence.h"
#include "costmodel/time/step_time.h"
#include "model_ir/json/json_value.h"

namespace headroom::cli {

/// How long a step takes, as `fit` tells it.
struct TimeAnswer {
  const TimeRequest& request;
  const std::optional<cost::StepTime>& step;
  std::optional<cost::TimeInterval> interval{};  ///< Between what the step's time lies.
};

/// A section of text; why there is no time, where there is none.
[[nodiscard]] std::string time_text(const TimeAnswer& answer, const Terminal& terminal);
/// The `time` of `configs/schema/fit.schema.json`; null where there is none.
[[nodiscard]] ir::JsonValue time_json(const TimeAnswer& answer);

}  // namespace headroom::cli
