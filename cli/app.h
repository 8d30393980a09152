#pragma once

#include <iosfwd>
#include <span>
#include <string>

#include "cli/exit_code.h"

namespace headroom::cli {

/// Runs `headroom` with the arguments after the program's name. Answers go to `out`, warnings and
/// errors to `err`. With --json, `out` receives exactly one document, which is that of the error if
/// there is one; --help and --version remain text.
///
/// Errors:  an `InternalError` is not caught; every other error becomes a message and an exit code.
[[nodiscard]] ExitCode run(std::span<const std::string> arguments, std::ostream& out,
                           std::ostream& err);

}  // namespace headroom::cli
