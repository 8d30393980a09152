#pragma once

#include "model_ir/json/json_value.h"

namespace headroom::ir {

/// The JSON schema of a plan (`configs/schema/plan.schema.json`), from the tables of its options.
[[nodiscard]] JsonValue plan_schema();

/// The JSON schema of a plan file (`configs/schema/plan_file.schema.json`).
[[nodiscard]] JsonValue plan_file_schema();

}  // namespace headroom::ir
