#pragma once

#include <vector>

#include "cli/arguments.h"
#include "costmodel/residuals.h"
#include "model_ir/base/result.h"
#include "validators/measured/explanations.h"

namespace headroom::cli {

/// Reads the errors of measured runs from `accuracy/residuals.json` in the catalogue's folder.
/// There are none if the file does not exist.
///
/// Errors:  those of `find_config_dir` and `read_residuals`.
[[nodiscard]] Result<std::vector<cost::ResidualSet>> load_residuals(const Arguments& arguments);

/// The same for `accuracy/explanations.json`.
///
/// Errors:  those of `find_config_dir` and `read_explanations`.
[[nodiscard]] Result<std::vector<check::Explanation>> load_explanations(const Arguments& arguments);

}  // namespace headroom::cli
