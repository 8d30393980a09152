#pragma once

#include <string>

#include "cli/report/answered_plan.h"
#include "cli/terminal.h"
#include "model_ir/json/json_value.h"

namespace headroom::cli {

/// The best plan of each framework, one per line; empty if only one framework has plans.
[[nodiscard]] std::string framework_lines(const PlanAnswer& answer, const Terminal& terminal);
/// The `frameworks` of `configs/schema/plan_answer.schema.json`.
[[nodiscard]] ir::JsonValue framework_json(const PlanAnswer& answer);

/// The values that were asked for and are not in the space, with the reasons; empty if there are
/// none.
[[nodiscard]] std::string left_out_lines(const PlanAnswer& answer, const Terminal& terminal);
/// The `left_out` of the schema.
[[nodiscard]] ir::JsonValue left_out_json(const PlanAnswer& answer);

/// Values of held axes that shorten the step and change what is trained; empty if there are none.
[[nodiscard]] std::string offer_lines(const PlanAnswer& answer, const Terminal& terminal);
/// The `offers` of the schema.
[[nodiscard]] ir::JsonValue offers_json(const PlanAnswer& answer);

/// The tokens that reach the experts of the busiest rank under the best plan, relative to an even
/// share.
[[nodiscard]] double load_of_best(const PlanAnswer& answer);
/// The axes that kept one value because the user did not name them, and what else was assumed.
[[nodiscard]] std::string held_lines(const PlanAnswer& answer, const Terminal& terminal);
/// The `held` of the schema.
[[nodiscard]] ir::JsonValue held_json(const PlanAnswer& answer);

}  // namespace headroom::cli
