#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/terminal.h"
#include "cli/time_options.h"
#include "costmodel/confidence.h"
#include "costmodel/time/step_time.h"
#include "model_ir/json/json_value.h"

namespace headroom::cli {

/// The step time in the answer of `fit`.
struct TimeAnswer {
  const TimeRequest& request;
  const std::optional<cost::StepTime>& step;
  std::optional<cost::TimeInterval> interval{};  ///< The interval of the step time.
  bool runs = true;                              ///< Whether the run fits, so that it takes a step.
};

/// What is to be known about the times of `gpus` GPUs of a machine: that nothing was measured on
/// its GPU or, if there are several, over its links.
[[nodiscard]] std::vector<std::string> machine_notes(const cost::Machine& machine,
                                                     std::int64_t gpus);

/// The section on time as text. If there is no time, it says why.
[[nodiscard]] std::string time_text(const TimeAnswer& answer, const Terminal& terminal);
/// The member `time` of `configs/schema/fit.schema.json`; null if there is no time.
[[nodiscard]] ir::JsonValue time_json(const TimeAnswer& answer);

}  // namespace headroom::cli
