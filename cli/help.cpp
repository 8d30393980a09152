#include "cli/help.h"

#include <algorithm>

namespace headroom::cli {
namespace {

constexpr std::size_t kNameColumns = 26;

std::string option_line(const OptionSpec& option, std::size_t width) {
  std::string name = "  --" + std::string(option.name);
  if (!option.value.empty()) {
    name += " " + std::string(option.value);
  }
  std::string text(option.help);
  if (!option.fallback.empty()) {
    text += " [default: " + std::string(option.fallback) + "]";
  }
  const std::size_t room = width - kNameColumns;
  const std::string gap = columns_of(name) < kNameColumns
                              ? std::string(kNameColumns - columns_of(name), ' ')
                              : "\n" + std::string(kNameColumns, ' ');
  std::string wrapped = wrap(text, room, 0);
  for (std::size_t at = 0; (at = wrapped.find('\n', at)) != std::string::npos;) {
    wrapped.insert(at + 1, kNameColumns, ' ');
    at += kNameColumns + 1;
  }
  return name + gap + wrapped + "\n";
}

}  // namespace

std::string program_help(std::span<const Command> commands, const Terminal& terminal) {
  std::string text =
      "headroom: will a transformer model fit, and what can be done about it?\n\n"
      "usage: headroom VERB [ARGUMENTS] [OPTIONS]\n\n";
  for (const Command& command : commands) {
    const std::string head =
        std::string(command.verb.name) + " " + std::string(command.verb.positionals);
    text += "  " + pad_right(head, 18) + wrap(command.verb.summary, terminal.width - 20, 0) + "\n";
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
  text += " [OPTIONS]\n\n" + wrap(std::string(verb.summary) + ".", terminal.width, 0) + "\n";
  if (!verb.detail.empty()) {
    text += "\n" + wrap(verb.detail, terminal.width, 0) + "\n";
  }
  text += "\n";
  for (const OptionSpec& option : verb.options) {
    text += option_line(option, terminal.width);
  }
  for (const OptionSpec& option : common_options()) {
    text += option_line(option, terminal.width);
  }
  text += "\nSizes take units: 80GiB is 80 * 2^30 bytes, 80GB is 80 * 10^9.\n\nexample: headroom " +
          std::string(verb.example) + "\n";
  return text;
}

}  // namespace headroom::cli
