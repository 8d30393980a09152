#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/exit_code.h"
#include "model_ir/base/error.h"

namespace headroom::cli {

/// The document of `--json` for an error: {"schema_version", "error": {"message", "code",
/// "exit_code", "file", ...}, "notes"}. `notes` are those that were found before.
[[nodiscard]] std::string error_json(const Error& error, const std::vector<std::string>& notes);
/// The same for a bug, or for memory that ran out: there is nothing but a message and a fix.
[[nodiscard]] std::string failure_json(ExitCode code, std::string_view message,
                                       std::string_view fix);

/// The key of an error as the user types it. Lower layers name options without dashes; MODEL and
/// the like are not options.
[[nodiscard]] std::string shown_key(const std::string& key);

/// The text of an error. Options are named as the user types them: "--micro-batch".
[[nodiscard]] std::string error_text(const Error& error);

}  // namespace headroom::cli
