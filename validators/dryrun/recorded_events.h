#pragma once

#include "model_ir/json/json_reader.h"
#include "model_ir/json/json_writer.h"
#include "model_ir/plan/rank_program.h"
#include "validators/dryrun/recorded_program.h"

/// The events of a recorded program as columns of a JSON object.
namespace headroom::check {

/// Reads the columns into a program whose phases are `phases`. What is wrong is noted in `object`.
[[nodiscard]] ir::RankProgram read_events(const ir::JsonObject& object,
                                          const std::vector<DryRunPhase>& phases);

[[nodiscard]] ir::JsonFields events_json(const ir::RankProgram& program);

}  // namespace headroom::check
