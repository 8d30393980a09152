#include "cli/help.h"

#include <algorithm>

namespace headroom::cli {
namespace {

constexpr std::size_t kOptionColumns = 26;

std::string option_line(const OptionSpec& option, std::size_t width) {
  std::string name = "  --" + std::string(option.name);
  if (!option.value.empty()) {
    name += " " + std::string(option.value);
  }
  std::string text(option.help);
  if (!option.fallback.empty()) {
    text += " [default: " + std::string(option.fallback) + "]";
  }
  const std::string gap = columns_of(name) < kOptionColumns
                              ? std::string(kOptionColumns - columns_of(name), ' ')
                              : "\n" + std::string(kOptionColumns, ' ');
  return name + gap + wrap(text, width - kOptionColumns, kOptionColumns) + "\n";
}

}  // namespace

std::string program_help(std::span<const Command> commands, const Terminal& terminal) {
  std::string text =
      "headroom: will a transformer model fit, and what can be done about it?\n\n"
      "usage: headroom VERB [ARGUMENTS] [OPTIONS]\n\n";
  std::size_t width = 0;
  const auto head = [](const Command& command) {
    return std::string(command.verb.name) + " " + std::string(command.verb.positionals);
  };
  for (const Command& command : commands) {
    width = std::max(width, columns_of(head(command)));
  }
  for (const Command& command : commands) {
    text += "  " + pad_right(head(command), width + 2) +
            wrap(command.verb.summary, terminal.width - width - 4, width + 4) + "\n";
  }
  text +=
      "\n  headroom VERB --help   options of a verb, with defaults\n"
      "  headroom --version\n\n"
      "exit codes: 0 yes or done, 1 no (does not fit), 2 wrong use, 3 bad input,\n"
      "            4 environment (unreadable file, missing part), 5 bug\n\n"
      "example: headroom fit llama-3.1-8b --gpu a100-80gb\n";
  return text;
}

std::string verb_help(const VerbSpec& verb, const Terminal& terminal) {
  std::string text = "usage: headroom " + std::string(verb.name);
  text += verb.positionals.empty() ? "" : " " + std::string(verb.positionals);
  text += " [OPTIONS]\n\n" + wrap(verb.summary, terminal.width, 0) + "\n";
  if (!verb.detail.empty()) {
    text += "\n" + wrap(verb.detail, terminal.width, 0) + "\n";
  }
  text += "\n";
  for (const OptionSpec& option : verb.options) {
    text += option.hidden ? "" : option_line(option, terminal.width);
  }
  for (const OptionSpec& option : common_options()) {
    text += option_line(option, terminal.width);
  }
  text += "\nSizes take units: 80GiB is 80 * 2^30 bytes, 80GB is 80 * 10^9.\n\nexample: headroom " +
          std::string(verb.example) + "\n";
  return text;
}

}  // namespace headroom::cli
