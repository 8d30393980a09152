#pragma once

#include <string>

#include "cli/exit_code.h"
#include "model_ir/base/error.h"

namespace headroom::cli {

/// The error object of `--json`: {"schema_version", "error": {"code", "exit_code", "file", ...}}.
[[nodiscard]] std::string error_json(const Error& error);

/// The fault of an option is named as people type it: "--micro-batch".
[[nodiscard]] std::string error_text(const Error& error);

}  // namespace headroom::cli
