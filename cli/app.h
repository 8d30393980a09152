#pragma once

#include <iosfwd>
#include <span>
#include <string>

#include "cli/exit_code.h"

namespace headroom::cli {

/// Runs `headroom` with what follows the program's name. Answers go to `out`; warnings and errors
/// to `err`. With --json, `out` gets exactly one document, or `err` one error object and `out`
/// nothing.
///
/// Errors:  an `InternalError` passes through; everything else becomes a message and an exit code.
[[nodiscard]] ExitCode run(std::span<const std::string> arguments, std::ostream& out,
                           std::ostream& err);

}  // namespace headroom::cli
