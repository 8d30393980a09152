#pragma once

#include <string>
#include <string_view>

#include "model_ir/base/result.h"
#include "model_ir/json/json_reader.h"
#include "model_ir/json/json_value.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::ir {

/// The plan as JSON with every field (`configs/schema/plan.schema.json`).
///
/// Units:   sizes in bytes or elements, as the key says; B, S and accumulation as counts.
[[nodiscard]] JsonValue plan_to_json(const ParallelPlan& plan);

/// Reads what `plan_to_json` writes. An absent key keeps its value from `base`, so a file written
/// by hand may be short.
///
/// Errors:  kInvalidInput if the text is no JSON or has an unknown key, a wrong type, an unknown
///          word or a value out of range. One error reports all of them; the second and later ones
///          are notes. `file` names the text.
[[nodiscard]] Result<ParallelPlan> parse_plan(std::string_view text, std::string_view file,
                                              const ParallelPlan& base = {});

/// The plan in an object of a document that is being read; faults are noted in its reader.
[[nodiscard]] ParallelPlan read_plan_object(const JsonObject& object, const ParallelPlan& base);

/// `parse_plan` of a file's content.
///
/// Errors:  those of `read_file` and `parse_plan`.
[[nodiscard]] Result<ParallelPlan> read_plan(const std::string& path,
                                             const ParallelPlan& base = {});

}  // namespace headroom::ir
