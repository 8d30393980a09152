#pragma once

#include <string>

namespace headroom::ir {

/// A word as a POSIX shell reads it back.
[[nodiscard]] std::string shell_word(const std::string& text);
/// The same for a word of a launch command: the variables of `kLaunchVariables` stay variables.
[[nodiscard]] std::string shell_word_with_variables(const std::string& text);

}  // namespace headroom::ir
