#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "model_ir/base/result.h"
#include "runtimes/interface/runs/measured_runs.h"
#include "validators/measured/row.h"

namespace headroom::check {

/// Why a row, a phase or a metric is not compared. The reason names the key that prevents it.
struct Skip {
  std::string reason;
};

/// "runtime vllm: not modelled yet"
[[nodiscard]] Skip not_modelled(std::string_view runtime);
/// "framework: 'colossalai'"
[[nodiscard]] Skip unknown_framework(const MeasuredRow& row);
/// The first line of an error, as the reason of a skip; `not_modelled` if the runtime causes the
/// error.
[[nodiscard]] Skip skip_of(const Error& error);

using Planned = std::variant<ir::RunSetting, Skip>;

/// The framework of a run, and how the run was parallelised.
struct RowLabels {
  std::string runtime;   ///< Empty if no framework reads such rows.
  std::string parallel;  ///< "none", "ddp", "hsdp", "tp8pp2"
};
[[nodiscard]] RowLabels labels_of(const MeasuredRow& row);

/// Turns a row of `RowForm::kCase` into a setting.
///
/// Model:   if a key of the case is unknown, the row is skipped, because ignoring the key could
///          change bytes. Defaults are those of the program that measured the rows
///          (tests/measured/README.md, "Fields").
[[nodiscard]] Planned plan_of_case(const MeasuredRow& row);

}  // namespace headroom::check
