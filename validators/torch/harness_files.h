#pragma once

#include <string>
#include <vector>

#include "model_ir/base/result.h"
#include "model_ir/json/json_value.h"

namespace headroom::check {

/// Folders that may hold `train.py` and the package `headroom_torch`: HEADROOM_TORCH_HOME alone if
/// it is set, otherwise next to the installed program (`../share/headroom/torch/python`), then the
/// tree that the program was built from.
[[nodiscard]] std::vector<std::string> training_script_places();

/// The first of `places` that has them.
///
/// Errors:  kEnvironment, naming every place that was tried.
[[nodiscard]] Result<std::string> find_training_script(const std::vector<std::string>& places);

/// One Python file that trains the case and needs nothing of Headroom: the modules of the package
/// in `folder`, one after the other, with the case in front of them. `title`: its first line.
///
/// Errors:  those of `read_file`.
[[nodiscard]] Result<std::string> whole_script(const std::string& folder,
                                               const ir::JsonValue& training_case,
                                               const std::string& title);

}  // namespace headroom::check
