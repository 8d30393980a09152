#pragma once

#include <cstddef>
#include <vector>

#include "model_ir/json/json_reader.h"
#include "model_ir/json/json_writer.h"
#include "model_ir/plan/rank_program.h"
#include "validators/dryrun/report.h"

/// The events of a recorded program as columns of a JSON object.
namespace headroom::check {

inline constexpr std::size_t kMostProgramEvents = 8'000'000;

/// The role of blocks of a dry run's category, and back.
[[nodiscard]] ir::TensorRole role_of_category(std::size_t category);
[[nodiscard]] std::size_t category_of_role(ir::TensorRole role);

/// Reads the columns into a program whose phases are `phases`. What is wrong is noted in `object`.
[[nodiscard]] ir::RankProgram read_events(const ir::JsonObject& object,
                                          const std::vector<DryRunPhase>& phases);

[[nodiscard]] ir::JsonFields events_json(const ir::RankProgram& program);

}  // namespace headroom::check
