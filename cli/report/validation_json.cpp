#include <algorithm>
#include <utility>

#include "cli/report/validation_answer.h"
#include "model_ir/json/json_writer.h"

namespace headroom::cli {
namespace {

using ir::JsonFields;
using ir::JsonValue;

JsonFields peaks_fields(const check::PhasePeaks& peaks) {
  JsonFields fields;
  fields.add("peak_allocated_bytes", peaks.allocated);
  fields.add("peak_reserved_bytes", peaks.reserved);
  return fields;
}

JsonFields side_fields(const ValidatedSide& side) {
  JsonFields fields;
  fields.add("verdict", side.verdict);
  fields.add("margin_bytes", side.margin);
  fields.add("peak_allocated_bytes", side.peaks.allocated);
  fields.add("peak_reserved_bytes", side.peaks.reserved);
  fields.add("step_seconds", side.step_seconds ? JsonValue{*side.step_seconds} : JsonValue{});
  fields.add("missing_at_failure_bytes",
             side.missing_at_failure ? JsonValue{side.missing_at_failure->value()} : JsonValue{});
  return fields;
}

JsonValue versions_json(const std::vector<check::PackageVersion>& versions) {
  JsonValue::Array array;
  for (const check::PackageVersion& version : versions) {
    JsonFields fields;
    fields.add("package", printable(version.package));
    fields.add("used", printable(version.used));
    fields.add("assumed", version.assumed);
    fields.add("agrees", version.agrees());
    array.push_back(std::move(fields).finish());
  }
  return JsonValue{std::move(array)};
}

JsonFields run_json(const ExecutedRun& run) {
  const auto number = [](const std::optional<double>& value) {
    return value ? JsonValue{*value} : JsonValue{};
  };
  JsonFields fields;
  JsonValue::Array losses;
  for (const double loss : run.losses) {
    losses.emplace_back(loss);
  }
  fields.add("losses", JsonValue{std::move(losses)});
  fields.add("tokens_per_second", number(run.tokens_per_second));
  fields.add("mfu", number(run.mfu));
  fields.add("predicted_driver_bytes", run.predicted_driver);
  fields.add("measured_driver_bytes", run.measured_driver);
  return fields;
}

}  // namespace

std::string validation_json(const ValidationAnswer& answer) {
  JsonFields document;
  document.add("schema_version", 1);
  document.add("answer", !answer.is_measured() ? "unknown"
                         : answer.agrees()     ? "agrees"
                                               : "differs");
  document.add("with", answer.with);
  document.add("tolerance", answer.tolerance);
  document.add("model", answer.model);
  document.add("plan", answer.setting);
  document.add("plan_file_name", answer.plan_file);
  document.add("device", answer.device);
  document.add("measured_on", printable(answer.used));
  document.add("gpus", answer.gpus);
  document.add("rank", answer.rank);
  document.add("predicted", side_fields(answer.predicted));
  document.add("measured", side_fields(answer.measured));
  JsonFields off;
  off.add("peak_allocated_bytes",
          answer.measured.peaks.allocated - answer.predicted.peaks.allocated);
  off.add("peak_reserved_bytes", answer.measured.peaks.reserved - answer.predicted.peaks.reserved);
  off.add("relative", answer.both_fit() ? JsonValue{answer.error()} : JsonValue{});
  document.add("difference", std::move(off));
  JsonValue::Array phases;
  for (const check::PhaseComparison& phase : answer.phases) {
    JsonFields fields;
    fields.add("phase", phase.name);
    fields.add("predicted", peaks_fields(phase.predicted));
    fields.add("measured", peaks_fields(phase.measured));
    phases.push_back(std::move(fields).finish());
  }
  document.add("phases", JsonValue{std::move(phases)});
  document.add("versions", versions_json(answer.versions));
  document.add("failure", answer.failure);
  document.add("snapshot", answer.snapshot);
  if (answer.run) {
    document.add("run", run_json(*answer.run));
  }
  document.add("notes", ir::json_texts(answer.notes));
  return to_pretty_json(std::move(document).finish()) + "\n";
}

}  // namespace headroom::cli
