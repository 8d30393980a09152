#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/terminal.h"
#include "model_ir/json/json_value.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/interface/launch.h"
#include "runtimes/plan_file.h"

namespace headroom::cli {

/// What one types to go on with a plan.
struct PlanCommands {
  std::int64_t gpus = 0;
  std::vector<std::string> fit;   ///< Words of the command that asks for the same plan.
  std::vector<std::string> emit;  ///< The command that writes the framework's file; none: no words.
  std::vector<std::string> environment;  ///< "PYTORCH_ALLOC_CONF=expandable_segments:True".
  ir::Launch launch;
  bool clips = true;  ///< Gradients are clipped.
};

/// `gpus_per_node`: of the machine that the plan runs on.
[[nodiscard]] PlanCommands commands_of(const ir::PlanFile& file, const ir::ModelSpec& model,
                                       std::int64_t gpus_per_node);

/// The commands as text: the last section of an answer.
[[nodiscard]] std::string commands_text(const PlanCommands& commands, const Terminal& terminal);
/// The `commands` of `configs/schema/plan_answer.schema.json`.
[[nodiscard]] ir::JsonValue commands_json(const PlanCommands& commands);

/// The words of a command on one line.
[[nodiscard]] std::string one_line(const std::vector<std::string>& words);

}  // namespace headroom::cli
