#include "validators/measured/row_plan.h"

#include "runtimes/interface/runs/recorded_keys.h"
#include "runtimes/interface/runs/run_reader.h"
#include "runtimes/registry.h"

namespace headroom::check {
namespace {

using ir::JsonValue;

/// The degrees above 1. If there are none and the row has several GPUs, the ZeRO stage.
std::string published_parallel(const JsonValue& setting) {
  std::string spread = ir::degrees_of(setting);
  const JsonValue* stage = setting.find("zero_stage");
  if (spread != "none" || stage == nullptr || !stage->as_integer()) {
    return spread;
  }
  return ir::integer_or(setting, "num_gpus", 1) > 1 ? "zero" + std::to_string(*stage->as_integer())
                                                    : "none";
}

}  // namespace

Skip not_modelled(std::string_view runtime) {
  return {"runtime " + std::string(runtime) + ": not modelled yet"};
}

Skip unknown_framework(const MeasuredRow& row) {
  return {row.framework.empty() ? "framework: not stated" : "framework: '" + row.framework + "'"};
}

Skip skip_of(const Error& error) {
  return error.key == "runtime" ? not_modelled(error.got) : Skip{ir::first_line(error)};
}

RowLabels labels_of(const MeasuredRow& row) {
  if (row.form == RowForm::kPublished) {
    const ir::PublishedFormat* const format = ir::find_published_format(row.framework);
    return {.runtime = std::string(format != nullptr ? format->shown_as : ""),
            .parallel = published_parallel(row.setting)};
  }
  const ir::RecordedFormat* const format = ir::find_recorded_format(row.framework);
  if (format == nullptr) {
    return {.runtime = "", .parallel = "none"};
  }
  return {.runtime = std::string(format->shown_as), .parallel = format->parallel(row.setting)};
}

Planned plan_of_case(const MeasuredRow& row) {
  const ir::RecordedFormat* const format = ir::find_recorded_format(row.framework);
  if (format == nullptr) {
    return unknown_framework(row);
  }
  if (!row.failure.empty()) {
    return Skip{"error: the measured run broke off"};
  }
  const auto recorder = row.on_gpu ? ir::Recorder::kGpu : ir::Recorder::kAccountingDevice;
  ir::RunSetting setting;
  ir::RunReader reader(&row.setting, "case");
  format->read(reader, recorder, setting);
  if (const auto trouble = reader.trouble()) {
    return Skip{*trouble};
  }
  if (recorder == ir::Recorder::kAccountingDevice) {
    setting.plan.allocator.segments = ir::SegmentPlaces::kRising;
  }
  return setting;
}

}  // namespace headroom::check
