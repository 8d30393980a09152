#pragma once

#include <span>
#include <string>

#include "cli/command.h"

namespace headroom::cli {

/// The help of the program: its purpose, its verbs and its exit codes.
[[nodiscard]] std::string program_help(std::span<const Command> commands, const Terminal& terminal);
/// The help of one verb: its options with defaults and units, and an example that works.
[[nodiscard]] std::string verb_help(const VerbSpec& verb, const Terminal& terminal);

}  // namespace headroom::cli
