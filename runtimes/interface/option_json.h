#pragma once

#include <span>

#include "model_ir/json/json_reader.h"
#include "model_ir/json/json_writer.h"
#include "runtimes/interface/option.h"

namespace headroom::ir {

/// Every option of a part, in the order of its table.
[[nodiscard]] JsonFields options_json(std::span<const OptionField> fields,
                                      const ParallelPlan& plan);
/// The part's options; null if the plan lacks the part.
[[nodiscard]] JsonValue part_json(const PlanPart& part, const ParallelPlan& plan);

/// Reads what `options_json` writes. An absent key leaves its option unchanged; so does null if the
/// option cannot be absent. Errors are noted in the reader.
void read_options(const JsonObject& object, std::span<const OptionField> fields,
                  ParallelPlan& plan);
/// Reads the part under its key: null removes it, an object sets it, an absent key leaves it
/// unchanged.
void read_part(const JsonObject& root, const PlanPart& part, ParallelPlan& plan);

/// The JSON schema of one option, and of a part with all of its options.
[[nodiscard]] JsonValue option_schema(const OptionField& field);
[[nodiscard]] JsonValue part_schema(const PlanPart& part);

}  // namespace headroom::ir
