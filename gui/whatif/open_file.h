#pragma once

#include <string>
#include <vector>

#include <QStringList>

#include "gui/whatif/scenario.h"
#include "gui/whatif/what_if_command.h"
#include "model_ir/base/result.h"

namespace headroom::gui {

/// The scenario that a file leads to.
struct Opened {
  Scenario scenario;
  Edit edit;
  QStringList
      notes{};  ///< Settings of the file that the window leaves out or the framework ignores.
};

/// Takes a file into `scenario`, whatever it is: a model (config.json, the folder with it,
/// safetensors, GGUF, a recording), a plan file, a program that `headroom dryrun --record` has
/// kept, or the configuration file of a framework, such as DeepSpeed's. The content decides.
///
/// Errors:  kEnvironment if the file cannot be read; those of `read_plan_scenario`,
///          `check::read_recorded_program`, `cost::load_device` and
///          `ir::Runtime::read_configuration`; kInvalidInput for a file that is none of these.
[[nodiscard]] Result<Opened> open_file(const std::string& config_dir, const std::string& path,
                                       const Scenario& scenario);

}  // namespace headroom::gui
