#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "cli/plan_options.h"
#include "runtimes/typed/shell_words.h"

namespace headroom::cli {

using ir::shell_word;
using ir::shell_word_with_variables;

/// Whether the option is typed with this value: a flag never is, and --fsdp may stand alone. An
/// option that is not among `options` is.
[[nodiscard]] bool has_value(const OptionValue& option, std::span<const OptionSpec> options);
/// "--micro-batch 2", "--liger".
[[nodiscard]] std::string typed_option(const OptionValue& option,
                                       std::span<const OptionSpec> options);

/// A command on several lines of at most `width` columns, each but the last with a backslash at its
/// end; lines after the first are indented. An option stays on the line of its value.
[[nodiscard]] std::string wrap_command(const std::vector<std::string>& words, std::size_t width,
                                       std::size_t indent);

/// A command line broken into several before options, so that a shell still reads it as one.
[[nodiscard]] std::string break_command(const std::string& command, std::size_t width);

}  // namespace headroom::cli
