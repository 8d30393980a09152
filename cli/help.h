#pragma once

#include <span>
#include <string>

#include "cli/command.h"
#include "cli/help_topics.h"

namespace headroom::cli {

/// The help of the program: its purpose, its verbs and its exit codes.
[[nodiscard]] std::string program_help(std::span<const Command> commands, const Terminal& terminal);
/// How one verb is used: the options that many people use, with defaults and units, the pages that
/// show the others (`topics_of`), and an example that works.
[[nodiscard]] std::string verb_help(const VerbSpec& verb, const Terminal& terminal);
/// One of those pages. Options whose value is a list of keys are followed by their keys.
[[nodiscard]] std::string topic_help(const VerbSpec& verb, const HelpTopic& topic,
                                     const Terminal& terminal);

}  // namespace headroom::cli
