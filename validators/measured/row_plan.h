#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>

#include "model_ir/base/device_traits.h"
#include "model_ir/base/result.h"
#include "model_ir/base/units.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"
#include "model_ir/spec/model_spec.h"
#include "validators/measured/row.h"

namespace headroom::check {

/// A measured run in the terms of a prediction.
struct RunSetting {
  ir::ModelSpec model;
  ir::ParallelPlan plan;
  DeviceTraits traits;
  Bytes capacity;  ///< What PyTorch's allocator may take from the driver.
  ir::Rank rank{0};
};

/// Why a row, a phase or a metric is not compared; names the key that stands in the way.
struct Skip {
  std::string reason;
};

/// "runtime fsdp: not modelled yet"
[[nodiscard]] Skip not_modelled(std::string_view runtime);
/// "framework: 'colossalai'"
[[nodiscard]] Skip unknown_framework(const MeasuredRow& row);
/// The first line of an error as the reason of a skip; `not_modelled` if a runtime is at fault.
[[nodiscard]] Skip skip_of(const Error& error);

using Planned = std::variant<RunSetting, Skip>;

/// Reads a Hugging Face configuration given as JSON text; `name` is for messages.
using ModelReader =
    std::function<Result<ir::ModelSpec>(std::string_view config, const std::string& name)>;

/// The framework that ran, and how the run was spread over GPUs.
struct RowLabels {
  std::string runtime;   ///< "transformers", "deepspeed", "fsdp", "megatron"; else empty.
  std::string parallel;  ///< "none", "ddp", "fsdp2", "hsdp", "zero2", "tp8pp2"
};
[[nodiscard]] RowLabels labels_of(const MeasuredRow& row);

/// Device memory of a row that names no GPU.
inline constexpr Bytes kUnnamedDevice{600'000'000'000};

/// Turns a row of `RowForm::kCase` into a setting.
///
/// Model:   every key of the case is understood or the row is skipped: a key left aside could move
///          bytes. Defaults are those of the program that measured the rows
///          (tests/measured/README.md, "Fields").
[[nodiscard]] Planned plan_of_case(const MeasuredRow& row, const ModelReader& read_model);

}  // namespace headroom::check
