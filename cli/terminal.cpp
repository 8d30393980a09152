#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace headroom::cli {
namespace {

constexpr std::size_t kLeastWidth = 60;
constexpr std::size_t kMostWidth = 200;

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

std::size_t width_of(int descriptor) {
  winsize size{};
  std::size_t width = 0;
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0) {
    width = size.ws_col;
  }
  const std::string_view columns = environment("COLUMNS");
  if (width == 0) {
    std::from_chars(columns.data(), columns.data() + columns.size(), width);
  }
  return width == 0 ? Terminal{}.width : std::clamp(width, kLeastWidth, kMostWidth);
}

/// Whether the locale is UTF-8. As in the C library, the first of these variables that is set
/// decides.
bool speaks_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view value = environment(name);
    if (!value.empty()) {
      return value.find("UTF-8") != std::string_view::npos ||
             value.find("utf8") != std::string_view::npos;
    }
  }
  return false;
}

std::string_view escape_code_of(Style style) {
  switch (style) {
    case Style::kPlain:
      return "";
    case Style::kStrong:
      return "1";
    case Style::kGood:
      return "1;32";
    case Style::kWarning:
      return "1;33";
    case Style::kBad:
      return "1;31";
    case Style::kFaint:
      return "2";
  }
  return "";
}

}  // namespace

Terminal standard_terminal(ColorChoice choice) {
  const bool is_terminal = isatty(STDOUT_FILENO) != 0;
  Terminal terminal = plain_terminal(choice);
  if (choice == ColorChoice::kAuto) {
    terminal.color =
        is_terminal && environment("NO_COLOR").empty() && environment("TERM") != "dumb";
  }
  if (is_terminal) {
    terminal.interactive = true;
    terminal.width = width_of(STDOUT_FILENO);
    terminal.unicode = speaks_utf8();
  }
  return terminal;
}

Terminal plain_terminal(ColorChoice choice) {
  return {.interactive = false,
          .color = choice == ColorChoice::kAlways,
          .unicode = true,
          .width = Terminal{}.width};
}

std::string styled(const Terminal& terminal, Style style, std::string_view text) {
  const std::string_view code = escape_code_of(style);
  if (!terminal.color || code.empty()) {
    return std::string(text);
  }
  return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

std::size_t columns_of(std::string_view text) {
  // Continuation bytes have the form 10xxxxxx.
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

std::string pad_right(std::string_view text, std::size_t width) {
  const std::size_t columns = columns_of(text);
  return std::string(text) + std::string(columns < width ? width - columns : 0, ' ');
}

std::string pad_left(std::string_view text, std::size_t width) {
  const std::size_t columns = columns_of(text);
  return std::string(columns < width ? width - columns : 0, ' ') + std::string(text);
}

std::string wrap(std::string_view text, std::size_t width, std::size_t indent) {
  std::string out;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t columns = columns_of(word);
    if (!out.empty() && column + 1 + columns > width) {
      out += '\n' + std::string(indent, ' ');
      column = 0;
    } else if (!out.empty()) {
      out += ' ';
      ++column;
    }
    out += word;
    column += columns;
  }
  return out;
}

std::string bar(const Terminal& terminal, double share, std::size_t width) {
  constexpr std::array<std::string_view, 9> kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
  if (!(share > 0)) {
    return {};
  }
  const double columns = std::min(share, 1.0) * static_cast<double>(width);
  if (!terminal.unicode) {
    return std::string(static_cast<std::size_t>(std::max(1.0, std::round(columns))), '#');
  }
  const auto eighths = static_cast<std::size_t>(std::max(1.0, std::round(columns * 8)));
  std::string out;
  for (std::size_t full = 0; full < eighths / 8; ++full) {
    out += kEighths[8];
  }
  return out + std::string(kEighths[eighths % 8]);
}

std::string heading(const Terminal& terminal, std::string_view text) {
  return "\n" + styled(terminal, Style::kStrong, text) + "\n";
}

}  // namespace headroom::cli
