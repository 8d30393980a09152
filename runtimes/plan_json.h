#pragma once

#include <string>
#include <string_view>

#include "model_ir/base/result.h"
#include "model_ir/json/json_value.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::ir {

/// The plan as JSON, every field written (`configs/schema/plan.schema.json`).
///
/// Units:   sizes in bytes or elements, as the key says; B, S and accumulation as counts.
[[nodiscard]] JsonValue plan_to_json(const ParallelPlan& plan);

/// Reads what `plan_to_json` writes. Keys that are absent keep their value from `base`, so that a
/// file written by hand may be short.
///
/// Errors:  kInvalidInput for what is no JSON, an unknown key, a wrong type, a word or value out of
///          range; one error for all faults, the others as notes. `file` names the text.
[[nodiscard]] Result<ParallelPlan> parse_plan(std::string_view text, std::string_view file,
                                              const ParallelPlan& base = {});

/// `parse_plan` of a file's content.
///
/// Errors:  those of `read_file` and `parse_plan`.
[[nodiscard]] Result<ParallelPlan> read_plan(const std::string& path,
                                             const ParallelPlan& base = {});

}  // namespace headroom::ir
