#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace headroom::cli {

/// When to use colour, according to `--color`.
enum class ColorChoice : std::uint8_t { kAuto, kAlways, kNever };

/// What a colour means. Words and pictures always express the same.
enum class Style : std::uint8_t { kPlain, kStrong, kGood, kWarning, kBad, kFaint };

/// How to print text.
struct Terminal {
  bool interactive = false;  ///< People read it: it is not a file or a pipe.
  bool color = false;
  bool unicode = true;     ///< Block characters in pictures; otherwise ASCII.
  std::size_t width = 80;  ///< Columns; never below 60.
};

/// The terminal of standard output. Colour is used only if it is a terminal, NO_COLOR is not set
/// and TERM is not "dumb". The width is that of the terminal, else COLUMNS, else 80.
///
/// Source:  https://no-color.org (NO_COLOR).
[[nodiscard]] Terminal standard_terminal(ColorChoice choice);
/// The properties of a stream that is not a terminal.
[[nodiscard]] Terminal plain_terminal(ColorChoice choice);

/// `text` in a style, or unchanged if the terminal has no colour.
[[nodiscard]] std::string styled(const Terminal& terminal, Style style, std::string_view text);
/// A blank line and a strong line: the title of a section.
[[nodiscard]] std::string heading(const Terminal& terminal, std::string_view text);

/// The number of columns of UTF-8 `text`. Every character that we print has a width of one column.
[[nodiscard]] std::size_t columns_of(std::string_view text);
/// Pads `text` with blanks to `width` columns. Longer text is not cut.
[[nodiscard]] std::string pad_right(std::string_view text, std::size_t width);
[[nodiscard]] std::string pad_left(std::string_view text, std::size_t width);
/// Breaks `text` between words into lines of at most `width` columns. All lines except the first
/// begin with `indent` additional blanks.
[[nodiscard]] std::string wrap(std::string_view text, std::size_t width, std::size_t indent);
/// A bar of `share` (0 to 1) of `width` columns, exact to an eighth of a column if the terminal can
/// show that. A share above 0 has at least the smallest mark.
[[nodiscard]] std::string bar(const Terminal& terminal, double share, std::size_t width);

}  // namespace headroom::cli
