#include "cli/shell_words.h"

#include <algorithm>

#include "cli/terminal.h"

namespace headroom::cli {

bool has_value(const OptionValue& option, std::span<const OptionSpec> options) {
  const auto spec = std::ranges::find(options, option.name, &OptionSpec::name);
  return spec == options.end() || (!spec->value.empty() && !(spec->bare && option.value.empty()));
}

std::string typed_option(const OptionValue& option, std::span<const OptionSpec> options) {
  return "--" + option.name + (has_value(option, options) ? " " + shell_word(option.value) : "");
}

std::string wrap_command(const std::vector<std::string>& words, std::size_t width,
                         std::size_t indent) {
  // A word that follows an option belongs to it, unless it is an option as well.
  std::vector<std::string> units;
  bool open = false;
  for (const std::string& word : words) {
    const bool option = word.starts_with("-");
    if (open && !option) {
      units.back() += " " + word;
      open = false;
    } else {
      units.push_back(word);
      open = option && word.find('=') == std::string::npos;
    }
  }
  std::string text;
  std::size_t column = 0;
  for (const std::string& unit : units) {
    const std::size_t columns = columns_of(unit);
    if (column > 0 && column + columns + 3 > width) {
      text += " \\\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > 0) {
      text += " ";
      ++column;
    }
    text += unit;
    column += columns;
  }
  return text;
}

std::string break_command(const std::string& command, std::size_t width) {
  constexpr std::string_view kBreak = " \\\n      ";
  std::string text;
  std::size_t column = 0;
  for (std::size_t begin = 0; begin < command.size();) {
    const std::size_t end = std::min(command.find(" --", begin + 1), command.size());
    const std::size_t length = end - begin;
    const bool breaks = column > 0 && column + length + 2 > width;
    text += breaks ? kBreak : "";
    text += command.substr(begin + (breaks ? 1 : 0), length - (breaks ? 1 : 0));
    column = (breaks ? 0 : column) + length;
    begin = end;
  }
  return text;
}

}  // namespace headroom::cli
