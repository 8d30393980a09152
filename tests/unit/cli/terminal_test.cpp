#include "cli/terminal.h"

#include <doctest/doctest.h>

namespace headroom::cli {
namespace {

const Terminal kPlain{.color = false, .unicode = true, .width = 80};

}  // namespace

TEST_CASE("bar: full, half and an eighth of a column") {
  CHECK(bar(kPlain, 1.0, 4) == "████");
  CHECK(bar(kPlain, 0.5, 4) == "██");
  CHECK(bar(kPlain, 0.53125, 4) == "██▏");  // 17 of 32 eighths
  CHECK(bar(kPlain, 2.0, 4) == "████");
}

TEST_CASE("bar: nothing is nothing, next to nothing shows") {
  CHECK(bar(kPlain, 0.0, 4).empty());
  CHECK(bar(kPlain, 1e-9, 4) == "▏");
}

TEST_CASE("bar: without block characters it is drawn with signs") {
  CHECK(bar({.color = false, .unicode = false, .width = 80}, 0.5, 10) == "#####");
}

TEST_CASE("styled: colour only where the terminal has it") {
  CHECK(styled(kPlain, Style::kBad, "x") == "x");
  const Terminal coloured{.color = true, .unicode = true, .width = 80};
  CHECK(styled(coloured, Style::kBad, "x") == "\x1b[1;31mx\x1b[0m");
  CHECK(styled(coloured, Style::kPlain, "x") == "x");
}

TEST_CASE("wrap: breaks between words, never inside one") {
  CHECK(wrap("one two three", 7, 0) == "one two\nthree");
  CHECK(wrap("one two three", 7, 2) == "one two\n  three");
  CHECK(wrap("a-word-that-is-too-long x", 5, 0) == "a-word-that-is-too-long\nx");
  CHECK(wrap("", 5, 0).empty());
}

TEST_CASE("columns_of: a character of several bytes is one column") {
  CHECK(columns_of("█▏x") == 3);
  CHECK(pad_left("█", 3) == "  █");
  CHECK(pad_right("█", 3) == "█  ");
  CHECK(pad_left("longer", 3) == "longer");
}

TEST_CASE("plain_terminal: coloured only when asked") {
  CHECK_FALSE(plain_terminal(ColorChoice::kAuto).color);
  CHECK_FALSE(plain_terminal(ColorChoice::kNever).color);
  CHECK(plain_terminal(ColorChoice::kAlways).color);
}

}  // namespace headroom::cli
