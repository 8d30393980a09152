#include "validators/measured/published_plan.h"

#include <array>
#include <string>
#include <utility>

#include "runtimes/interface/runs/run_reader.h"
#include "runtimes/registry.h"
#include "validators/measured/published_words.h"

namespace headroom::check {
namespace {

using ir::JsonValue;

std::string setting_text(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.find(key);
  return value != nullptr && value->as_string() != nullptr ? *value->as_string() : "";
}

/// Changes "row.precision: ..." to "precision: ...", since reasons name keys of the row.
Skip skip_from(std::string trouble) {
  constexpr std::string_view kPrefix = "row.";
  return Skip{trouble.starts_with(kPrefix) ? trouble.substr(kPrefix.size()) : std::move(trouble)};
}

/// Why a row is skipped before its plan is read.
std::optional<Skip> refuse_early(const MeasuredRow& row) {
  if (row.measured_raw.is_null()) {
    return Skip{"measured: nothing"};
  }
  const std::string word = setting_text(row.setting, "mode");
  if (word != "train" && word != "finetune") {
    return Skip{"mode: '" + word + "'"};
  }
  if (auto skip = unknown_measure(row.measured_raw)) {
    return skip;
  }
  return std::nullopt;
}

/// Ignores keys of every row that do not affect memory, or from which other keys are derived.
void ignore_remarks(ir::RunReader& row) {
  constexpr std::array<std::string_view, 14> kAside = {"id",
                                                       "framework",
                                                       "framework_version",
                                                       "mode",
                                                       "optimizer_state_dtypes",
                                                       "other",
                                                       "notes",
                                                       "dp",
                                                       "sequence_parallel",
                                                       "vpp",
                                                       "etp",
                                                       "completeness",
                                                       "zero_stage",
                                                       "source"};
  row.ignore(kAside);
}

}  // namespace

PublishedPlanned plan_of_published(const MeasuredRow& row, const ScoreTools& tools) {
  const ir::PublishedFormat* const format = ir::find_published_format(row.framework);
  if (format == nullptr) {
    return unknown_framework(row);
  }
  if (auto skip = refuse_early(row)) {
    return *skip;
  }
  const auto gpu = published_device(setting_text(row.setting, "gpu"));
  const auto device = gpu ? std::optional(tools.find_device(std::string(*gpu))) : std::nullopt;
  PublishedSetting setting;
  ir::RunReader reader(&row.setting, "row");
  format->read(reader, device && *device ? std::optional((*device)->traits) : std::nullopt,
               setting.run);
  static_cast<void>(reader.lookup<std::string_view>("gpu", published_device));
  ignore_remarks(reader);
  if (const auto trouble = reader.trouble()) {
    return skip_from(*trouble);
  }
  if (!*device) {  // The reader has already refused a row with an unknown GPU.
    return skip_of(device->error());
  }
  setting.device = device->value();
  return setting;
}

}  // namespace headroom::check
