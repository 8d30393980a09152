#pragma once

#include <string>

#include "cli/report/answered_plan.h"
#include "cli/terminal.h"
#include "model_ir/json/json_value.h"
#include "model_ir/json/json_writer.h"

namespace headroom::cli {

/// Lines about the work of each GPU under the best plan, and about the time and cost of the run.
[[nodiscard]] std::string use_lines(const PlanAnswer& answer, const Terminal& terminal);
/// Adds the same to the JSON of the best plan.
void add_use(const PlanAnswer& answer, ir::JsonFields& fields);

/// The time of the fastest plan, if no plan is in time.
[[nodiscard]] std::string late_lines(const PlanAnswer& answer, const Terminal& terminal);
/// The member `fastest` of `configs/schema/plan_answer.schema.json`.
[[nodiscard]] ir::JsonValue fastest_json(const PlanAnswer& answer);

/// The table of the best plan of each GPU type on each number of GPUs; empty if there is one row.
[[nodiscard]] std::string choice_lines(const PlanAnswer& answer, const Terminal& terminal);
/// The member `choices` of `configs/schema/plan_answer.schema.json`.
[[nodiscard]] ir::JsonValue choices_json(const PlanAnswer& answer);

}  // namespace headroom::cli
