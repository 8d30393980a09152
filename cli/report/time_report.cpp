#include "cli/report/time_report.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cli/scalars.h"
#include "model_ir/json/json_writer.h"

namespace headroom::cli {
namespace {

using ir::JsonFields;
using ir::JsonValue;

constexpr std::size_t kPartColumns = 32;
constexpr std::size_t kTimeColumns = 11;
constexpr std::size_t kShareColumns = 9;
constexpr double kLeastShare = 0.0005;  ///< Smaller parts are not shown.
constexpr double kTera = 1e12;

std::string heading_of(const TimeAnswer& answer, const Terminal& terminal) {
  const cost::StepTime& step = *answer.step;
  std::string text =
      "\n" +
      styled(terminal, Style::kStrong,
             (answer.runs ? "a step takes " : "a step would take ") +
                 duration_text(step.total.value()) +
                 (answer.request.machine->performance.estimated ? " (estimated from the datasheet)"
                                                                : "")) +
      "\n";
  if (answer.interval) {
    text += "  95 % interval: " + duration_text(answer.interval->low.value()) + " to " +
            duration_text(answer.interval->high.value()) + "\n";
  }
  text += "  each GPU: " + three_digits(step.tokens_per_second_per_gpu()) + " tokens/s, " +
          three_digits(step.model_rate().value() / kTera) + " model TFLOP/s";
  text += step.mfu() ? ", MFU " + percent_text(*step.mfu()) : "";
  const bool recomputes = step.hardware_flops > step.model_flops;
  text += step.hfu() && recomputes ? ", HFU " + percent_text(*step.hfu()) : "";
  return text + "\n";
}

std::string parts_table(const cost::StepTime& step) {
  std::vector<std::pair<Seconds, cost::StepPart>> parts;
  for (std::size_t i = 0; i < cost::kStepParts; ++i) {
    const auto part = static_cast<cost::StepPart>(i);
    parts.emplace_back(step.parts.of(part), part);
  }
  std::ranges::stable_sort(parts, std::greater{}, &std::pair<Seconds, cost::StepPart>::first);
  const TableUnit unit = unit_of_seconds(step.total.value());
  std::string text;
  for (const auto& [time, part] : parts) {
    const double share = time / step.total;
    if (share >= kLeastShare) {
      text += "  " + pad_right(std::string(describe(part)), kPartColumns) +
              pad_left(table_figure(time, unit), kTimeColumns) +
              pad_left(percent_text(share), kShareColumns) + "\n";
    }
  }
  return text;
}

std::string costs_of(const TimeAnswer& answer, const Terminal& terminal) {
  const cost::RunFigures run = run_figures(*answer.step, answer.request.costs);
  std::string text;
  const auto add = [&text](const std::optional<double>& value, double unit, const char* words) {
    if (value) {
      text += (text.empty() ? "" : ", ") + three_digits(*value / unit) + words;
    }
  };
  add(run.tokens_per_dollar, 1e6, " million tokens per dollar");
  add(run.tokens_per_joule, 1, " tokens per joule");
  add(run.days, 1, " days");
  add(run.dollars, 1, " dollars");
  add(run.megawatt_hours, 1, " MWh");
  return text.empty() ? text : "  " + wrap(text, terminal.width - 4, 2) + "\n";
}

void add_optional(JsonFields& fields, const char* key, const std::optional<double>& value) {
  fields.add(key, value ? JsonValue{*value} : JsonValue{});
}

}  // namespace

std::vector<std::string> machine_notes(const cost::Machine& machine, std::int64_t gpus) {
  const bool linked = gpus > 1;
  std::vector<std::string> notes;
  const auto add = [&notes](const std::string& note) {
    if (!note.empty()) {
      notes.push_back(note);
    }
  };
  add(linked ? machine.note : "");
  add(machine.performance.note);
  add(linked ? machine.topology.fabric.note : "");
  return notes;
}

std::string time_text(const TimeAnswer& answer, const Terminal& terminal) {
  if (!answer.step) {
    return answer.request.missing.empty()
               ? std::string()
               : "\nstep time: not predicted (" + answer.request.missing + ")\n";
  }
  std::string text =
      heading_of(answer, terminal) + parts_table(*answer.step) + costs_of(answer, terminal);
  for (const std::string& note : machine_notes(*answer.request.machine, answer.step->gpus)) {
    text += "  " + wrap("note: " + note, terminal.width - 2, 2) + "\n";
  }
  return text;
}

JsonValue time_json(const TimeAnswer& answer) {
  if (!answer.step) {
    return JsonValue{};
  }
  const cost::StepTime& step = *answer.step;
  JsonFields parts;
  for (std::size_t i = 0; i < cost::kStepParts; ++i) {
    const auto part = static_cast<cost::StepPart>(i);
    parts.add(name_of(part), step.parts.of(part).value());
  }
  const cost::RunFigures run = run_figures(step, answer.request.costs);
  JsonFields fields;
  fields.add("step_seconds", step.total.value());
  fields.add("parts_seconds", std::move(parts));
  fields.add("stage", step.stage);
  fields.add("tokens_per_step", step.tokens);
  fields.add("tokens_per_second_per_gpu", step.tokens_per_second_per_gpu());
  fields.add("model_flops_per_second_per_gpu", step.model_rate().value());
  fields.add("hardware_flops_per_second_per_gpu", step.hardware_rate().value());
  add_optional(fields, "mfu", step.mfu());
  add_optional(fields, "hfu", step.hfu());
  add_optional(fields, "tokens_per_dollar", run.tokens_per_dollar);
  add_optional(fields, "tokens_per_joule", run.tokens_per_joule);
  add_optional(fields, "days", run.days);
  add_optional(fields, "dollars", run.dollars);
  add_optional(fields, "megawatt_hours", run.megawatt_hours);
  fields.add("node", answer.request.machine->node);
  fields.add("estimated", answer.request.machine->performance.estimated);
  fields.add("notes", ir::json_texts(machine_notes(*answer.request.machine, step.gpus)));
  return std::move(fields).finish();
}

}  // namespace headroom::cli
