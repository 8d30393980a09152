#pragma once

#include <string>

#include "cli/report/answered_plan.h"
#include "cli/terminal.h"

namespace headroom::cli {

/// The answer in the form of `configs/schema/plan_answer.schema.json`.
[[nodiscard]] std::string plan_answer_json(const PlanAnswer& answer);
[[nodiscard]] std::string plan_answer_text(const PlanAnswer& answer, const Terminal& terminal);

}  // namespace headroom::cli
