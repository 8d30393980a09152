#pragma once

#include <string>

#include <QString>

#include "gui/whatif/scenario.h"
#include "model_ir/base/result.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/plan_file.h"

/// A scenario as what the command line reads: a plan file and commands.
namespace headroom::gui {

/// The file that `headroom fit --plan` reads. Paths of models are absolute. Requires a model.
[[nodiscard]] ir::PlanFile plan_file_of(const Scenario& scenario);

/// Writes it.
///
/// Errors:  kEnvironment if the file cannot be written; kInvalidArgument for a recorded program,
///          which has no plan.
[[nodiscard]] Status write_plan_file(const QString& path, const Scenario& scenario);

/// The command that answers what the window shows: "headroom fit llama-3.1-8b --gpu h100 ...", for
/// a recorded program "headroom fit --program train.program.gz --gpu h100 ...".
[[nodiscard]] QString fit_command(const Scenario& scenario, const ir::ModelSpec& model);

/// The commands that start the framework with the plan: the environment, then the command, one line
/// each, then what the user's script needs.
[[nodiscard]] QString launch_text(const Scenario& scenario, const ir::ModelSpec& model,
                                  std::int64_t gpus_per_node);

}  // namespace headroom::gui
