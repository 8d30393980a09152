#pragma once

#include <string>

#include "cli/exit_code.h"
#include "model_ir/base/error.h"

namespace headroom::cli {

/// The error object of `--json`: {"schema_version", "error": {"code", "exit_code", "file", ...}}.
[[nodiscard]] std::string error_json(const Error& error);

/// The text of an error. Options are named as the user types them: "--micro-batch".
[[nodiscard]] std::string error_text(const Error& error);

}  // namespace headroom::cli
