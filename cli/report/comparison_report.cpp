#include "cli/report/comparison_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <utility>

#include "cli/error_json.h"
#include "cli/report/host_text.h"
#include "cli/scalars.h"
#include "model_ir/json/json_writer.h"
#include "model_ir/plan/rank_program.h"

namespace headroom::cli {
namespace {

using ir::JsonFields;
using ir::JsonValue;

constexpr std::size_t kLeastColumn = 9;
constexpr double kLeastPartShare = 0.0005;  // `fit` leaves out the same parts of the step.
constexpr std::array<cost::StepPart, 5> kCommunication = {
    cost::StepPart::kTensor, cost::StepPart::kContext, cost::StepPart::kExpert,
    cost::StepPart::kData, cost::StepPart::kPipeline};

/// One line of the table: a value for each plan, or a heading without any.
struct ComparedRow {
  std::string name;
  std::vector<std::string> values;
};

TableUnit byte_unit(const std::vector<ComparedPlan>& plans) {
  Bytes largest;
  for (const ComparedPlan& plan : plans) {
    largest = plan.refusal ? largest : std::max(largest, plan.peak_allocated);
  }
  return unit_of_bytes(static_cast<double>(largest.value()));
}

TableUnit time_unit(const std::vector<ComparedPlan>& plans) {
  Seconds longest{0};
  for (const ComparedPlan& plan : plans) {
    longest = std::max(longest, plan.step.value_or(Seconds{0}));
  }
  return unit_of_seconds(longest.value());
}

class ComparisonTable {
 public:
  explicit ComparisonTable(const std::vector<ComparedPlan>& plans) : plans_(plans) {}

  void add(const std::string& name,
           const std::function<std::string(const ComparedPlan& plan)>& value_of) {
    std::vector<std::string> values;
    for (const ComparedPlan& plan : plans_) {
      values.push_back(plan.refusal ? "-" : value_of(plan));
    }
    rows_.push_back({.name = name, .values = std::move(values)});
  }
  void add(const PlanDifference& difference) {
    rows_.push_back({.name = difference.option, .values = difference.values});
  }
  void heading(const std::string& text) { rows_.push_back({.name = text, .values = {}}); }

  /// Blocks of columns, each with the names of the rows in front.
  [[nodiscard]] std::string text(const Terminal& terminal) const {
    std::size_t name_columns = 0;
    for (const ComparedRow& row : rows_) {
      name_columns = std::max(name_columns, columns_of(row.name) + (row.values.empty() ? 0 : 2));
    }
    std::string text;
    for (std::size_t first = 0; first < plans_.size();) {
      std::size_t last = first;
      std::size_t used = name_columns;
      while (last < plans_.size() &&
             (last == first || used + 2 + width_of(last) <= terminal.width)) {
        used += 2 + width_of(last);
        ++last;
      }
      text += (first == 0 ? "" : "\n") + block(terminal, name_columns, first, last);
      first = last;
    }
    return text;
  }

 private:
  [[nodiscard]] std::size_t width_of(std::size_t column) const {
    std::size_t width = kLeastColumn;
    for (const ComparedRow& row : rows_) {
      width = row.values.empty() ? width : std::max(width, columns_of(row.values[column]));
    }
    return width;
  }

  [[nodiscard]] std::string block(const Terminal& terminal, std::size_t name_columns,
                                  std::size_t first, std::size_t last) const {
    std::string text = std::string(name_columns, ' ');
    for (std::size_t at = first; at < last; ++at) {
      text += "  " + pad_left("(" + std::to_string(at + 1) + ")", width_of(at));
    }
    text += "\n";
    for (const ComparedRow& row : rows_) {
      if (row.values.empty()) {
        text += styled(terminal, Style::kStrong, row.name) + "\n";
        continue;
      }
      text += pad_right("  " + row.name, name_columns);
      for (std::size_t at = first; at < last; ++at) {
        text += "  " + pad_left(row.values[at], width_of(at));
      }
      text += "\n";
    }
    return text;
  }

  const std::vector<ComparedPlan>& plans_;
  std::vector<ComparedRow> rows_;
};

bool any_plan(const std::vector<ComparedPlan>& plans,
              const std::function<bool(const ComparedPlan& plan)>& holds) {
  return std::ranges::any_of(
      plans, [&holds](const ComparedPlan& plan) { return !plan.refusal && holds(plan); });
}

/// Whether a role is more than a trace of the plan's peak.
bool is_shown(const ComparedPlan& plan, std::size_t role) {
  constexpr std::int64_t kLeastPart = 2000;  // `fit` leaves out the same parts of the time.
  return plan.by_role.at(role).value() > plan.peak_allocated.value() / kLeastPart;
}

/// "backward" for "step 2, backward, layer 31: silu": what the peak is in, without its step.
std::string phase_of(std::string_view moment) {
  moment = moment.substr(0, moment.find(':'));
  if (const std::size_t comma = moment.find(", ");
      moment.starts_with("step ") && comma != std::string_view::npos) {
    moment.remove_prefix(comma + 2);
  }
  return std::string(moment.substr(0, moment.find(',')));
}

void add_memory(ComparisonTable& table, const std::vector<ComparedPlan>& plans) {
  const TableUnit unit = byte_unit(plans);
  const auto bytes = [unit](Bytes value) {
    return figure_in(static_cast<double>(value.value()), unit);
  };
  table.heading("memory, " + std::string(unit.name));
  table.add("to spare", [&](const ComparedPlan& plan) { return bytes(plan.margin); });
  table.add("left for PyTorch", [&](const ComparedPlan& plan) { return bytes(plan.capacity); });
  table.add("peak reserved", [&](const ComparedPlan& plan) { return bytes(plan.peak_reserved); });
  table.add("peak allocated", [&](const ComparedPlan& plan) { return bytes(plan.peak_allocated); });
  table.add("  peak in", [](const ComparedPlan& plan) { return phase_of(plan.moment); });
  for (std::size_t role = 0; role < ir::kTensorRoleCount; ++role) {
    if (any_plan(plans, [role](const ComparedPlan& plan) { return is_shown(plan, role); })) {
      table.add("  " + std::string(name_of(static_cast<ir::TensorRole>(role))),
                [&](const ComparedPlan& plan) { return bytes(plan.by_role.at(role)); });
    }
  }
  if (any_plan(plans, [](const ComparedPlan& plan) { return shows_host(plan.host); })) {
    table.add("host, of the node",
              [&](const ComparedPlan& plan) { return bytes(plan.host.bytes); });
    table.add("  the node has", [&](const ComparedPlan& plan) {
      return plan.host.capacity ? bytes(*plan.host.capacity) : std::string("-");
    });
  }
  if (any_plan(plans, [](const ComparedPlan& plan) { return plan.host.nvme > Bytes{0}; })) {
    table.add("NVMe, of the node", [&](const ComparedPlan& plan) { return bytes(plan.host.nvme); });
    table.add("  the node has", [&](const ComparedPlan& plan) {
      return plan.host.nvme_capacity ? bytes(*plan.host.nvme_capacity) : std::string("-");
    });
  }
}

void add_time(ComparisonTable& table, const std::vector<ComparedPlan>& plans) {
  if (!any_plan(plans, [](const ComparedPlan& plan) { return plan.step.has_value(); })) {
    return;
  }
  const TableUnit unit = time_unit(plans);
  const auto time = [unit](const ComparedPlan& plan, Seconds value) {
    return plan.step ? figure_in(value.value(), unit) : std::string("-");
  };
  table.heading("step, " + std::string(unit.name));
  table.add("step time",
            [&](const ComparedPlan& plan) { return time(plan, plan.step.value_or(Seconds{0})); });
  for (std::size_t i = 0; i < cost::kStepParts; ++i) {
    const auto part = static_cast<cost::StepPart>(i);
    if (any_plan(plans, [part](const ComparedPlan& plan) {
          return plan.step && plan.parts.of(part) / *plan.step >= kLeastPartShare;
        })) {
      table.add("  " + std::string(describe(part)),
                [&](const ComparedPlan& plan) { return time(plan, plan.parts.of(part)); });
    }
  }
  table.add("tokens/s, all GPUs", [](const ComparedPlan& plan) {
    return plan.step ? three_digits(plan.tokens_per_second) : std::string("-");
  });
}

/// Whether communication is among the parts of the plan's step.
bool waits_for_communication(const ComparedPlan& plan) {
  return plan.step && std::ranges::any_of(kCommunication, [&plan](cost::StepPart part) {
           return plan.parts.of(part) / *plan.step >= kLeastPartShare;
         });
}

/// What a message says after "error: ".
std::string refusal_text(const Error& error) {
  constexpr std::string_view kStart = "error: ";
  std::string text = error_text(error);
  text.erase(0, text.starts_with(kStart) ? kStart.size() : 0);
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
}

JsonFields plan_fields(const ComparedPlan& plan) {
  JsonFields fields;
  fields.add("name", plan.name);
  fields.add("refusal", plan.refusal ? JsonValue{refusal_text(*plan.refusal)} : JsonValue{});
  if (plan.refusal) {
    return fields;
  }
  fields.add("model", plan.model);
  fields.add("device", plan.device);
  fields.add("verdict", name_of(plan.verdict));
  fields.add("fits_probability", plan.chance ? JsonValue{*plan.chance} : JsonValue{});
  fields.add("margin_bytes", plan.margin);
  fields.add("capacity_bytes", plan.capacity);
  fields.add("peak_allocated_bytes", plan.peak_allocated);
  fields.add("peak_reserved_bytes", plan.peak_reserved);
  fields.add("moment", plan.moment);
  JsonFields roles;
  for (std::size_t role = 0; role < ir::kTensorRoleCount; ++role) {
    roles.add(name_of(static_cast<ir::TensorRole>(role)), plan.by_role.at(role));
  }
  fields.add("by_role_bytes", std::move(roles));
  fields.add("host", host_json(plan.host, plan.host_verdict, plan.host_assumed));
  fields.add("step_seconds", plan.step ? JsonValue{plan.step->value()} : JsonValue{});
  JsonFields parts;
  for (std::size_t i = 0; i < cost::kStepParts; ++i) {
    const auto part = static_cast<cost::StepPart>(i);
    parts.add(name_of(part), plan.parts.of(part).value());
  }
  fields.add("parts_seconds", plan.step ? std::move(parts).finish() : JsonValue{});
  fields.add("tokens_per_second", plan.step ? JsonValue{plan.tokens_per_second} : JsonValue{});
  fields.add("plan_file", ir::plan_file_to_json(plan.file));
  return fields;
}

}  // namespace

std::string comparison_text(const std::vector<ComparedPlan>& plans, const Terminal& terminal) {
  std::string text;
  for (std::size_t at = 0; at < plans.size(); ++at) {
    text += pad_right("(" + std::to_string(at + 1) + ")", 5) + plans[at].name + "\n";
  }
  ComparisonTable table(plans);
  if (const std::vector<PlanDifference> differences = differences_of(plans); !differences.empty()) {
    table.heading("what differs");
    for (const PlanDifference& difference : differences) {
      table.add(difference);
    }
  }
  table.heading("answer");
  table.add("verdict", [](const ComparedPlan& plan) {
    return std::string(cost::verdict_words(plan.verdict, plan.chance));
  });
  if (any_plan(plans, [](const ComparedPlan& plan) { return plan.chance.has_value(); })) {
    table.add("chance to fit", [](const ComparedPlan& plan) {
      return plan.chance ? percent_text(*plan.chance) : std::string("-");
    });
  }
  add_memory(table, plans);
  add_time(table, plans);
  text += "\n" + table.text(terminal);
  if (any_plan(plans, waits_for_communication)) {
    text += "communication: the time in which the GPU waits for it\n";
  }
  for (std::size_t at = 0; at < plans.size(); ++at) {
    const ComparedPlan& plan = plans[at];
    const std::string number = "\n(" + std::to_string(at + 1) + ") ";
    const std::string shortage = plan.refusal ? std::string() : host_shortage(plan.host);
    text += plan.refusal ? number + "is refused: " + refusal_text(*plan.refusal) + "\n" : "";
    text += shortage.empty() ? "" : number + "does not fit: " + shortage + "\n";
  }
  return text;
}

std::string comparison_json(const std::vector<ComparedPlan>& plans,
                            const std::vector<std::string>& notes) {
  JsonValue::Array differences;
  for (const PlanDifference& difference : differences_of(plans)) {
    JsonFields fields;
    fields.add("option", difference.option);
    fields.add("values", ir::json_texts(difference.values));
    differences.push_back(std::move(fields).finish());
  }
  JsonValue::Array all;
  for (const ComparedPlan& plan : plans) {
    all.push_back(std::move(plan_fields(plan)).finish());
  }
  JsonFields document;
  document.add("schema_version", 1);
  document.add("differences", JsonValue{std::move(differences)});
  document.add("plans", JsonValue{std::move(all)});
  document.add("notes", ir::json_texts(notes));
  return to_pretty_json(std::move(document).finish()) + "\n";
}

}  // namespace headroom::cli
