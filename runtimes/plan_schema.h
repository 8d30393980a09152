#pragma once

#include "model_ir/json/json_value.h"

namespace headroom::ir {

/// The JSON schema of a plan (`configs/schema/plan.schema.json`), from the tables of its options.
[[nodiscard]] JsonValue plan_schema();

}  // namespace headroom::ir
