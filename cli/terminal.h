#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace headroom::cli {

/// When to colour, as `--color` says it.
enum class ColorChoice : std::uint8_t { kAuto, kAlways, kNever };

/// What colour stands for; words and pictures always say the same.
enum class Style : std::uint8_t { kPlain, kStrong, kGood, kWarning, kBad, kFaint };

/// How text is put out.
struct Terminal {
  bool color = false;
  bool unicode = true;     ///< Block characters in pictures; otherwise ASCII.
  std::size_t width = 80;  ///< Columns; never below 60.
};

/// What standard output is: coloured only if it is a terminal, NO_COLOR is not set and TERM is not
/// "dumb". The width is the terminal's, or COLUMNS, or 80.
///
/// Source:  https://no-color.org (NO_COLOR).
[[nodiscard]] Terminal standard_terminal(ColorChoice choice);
/// A stream that is no terminal.
[[nodiscard]] Terminal plain_terminal(ColorChoice choice);

/// `text` in a style, or as it is where the terminal has no colour.
[[nodiscard]] std::string styled(const Terminal& terminal, Style style, std::string_view text);

/// Columns that UTF-8 `text` takes; every character of ours is one column wide.
[[nodiscard]] std::size_t columns_of(std::string_view text);
/// Pads `text` with blanks to `width` columns; longer text stays whole.
[[nodiscard]] std::string pad_right(std::string_view text, std::size_t width);
[[nodiscard]] std::string pad_left(std::string_view text, std::size_t width);
/// Breaks `text` between words into lines of at most `width` columns of text; before each but the
/// first stand `indent` blanks more.
[[nodiscard]] std::string wrap(std::string_view text, std::size_t width, std::size_t indent);
/// A bar of `share` (0 to 1) of `width` columns, to an eighth of a column where that can be drawn;
/// something that is not nothing shows at least its least mark.
[[nodiscard]] std::string bar(const Terminal& terminal, double share, std::size_t width);

}  // namespace headroom::cli
