#pragma once

#include <span>

#include "model_ir/json/json_reader.h"
#include "model_ir/json/json_writer.h"
#include "runtimes/interface/option.h"

namespace headroom::ir {

/// Every option of a part, in the order of its table.
[[nodiscard]] JsonFields options_json(std::span<const OptionField> fields, const void* part);
/// The part's options; null where the plan lacks the part.
[[nodiscard]] JsonValue part_json(const PlanPart& part, const ParallelPlan& plan);

/// Reads what `options_json` writes. A key that is absent leaves its option as it is, and so does
/// null where the option cannot be absent. Faults are noted in the reader.
void read_options(const JsonObject& object, std::span<const OptionField> fields, void* part);
/// Reads the part under its key: null takes it away, an object sets it, absence leaves it.
void read_part(const JsonObject& root, const PlanPart& part, ParallelPlan& plan);

/// The JSON schema of one option, and of a part with all of its options.
[[nodiscard]] JsonValue option_schema(const OptionField& field);
[[nodiscard]] JsonValue part_schema(const PlanPart& part);

}  // namespace headroom::ir
