#include "costmodel/hardware/bandwidth.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace headroom::cost {
namespace {

struct Unit {
  std::string_view name;
  double bytes_per_second;
};
constexpr std::array<Unit, 11> kUnits = {{{"kB/s", 1e3},
                                          {"MB/s", 1e6},
                                          {"GB/s", 1e9},
                                          {"TB/s", 1e12},
                                          {"KiB/s", 1024.0},
                                          {"MiB/s", 1048576.0},
                                          {"GiB/s", 1073741824.0},
                                          {"TiB/s", 1099511627776.0},
                                          {"Mbit/s", 1e6 / 8},
                                          {"Gbit/s", 1e9 / 8},
                                          {"Tbit/s", 1e12 / 8}}};

void skip_blanks(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
}

/// Removes the text before the next blank from `text` and returns it.
std::string_view take_word(std::string_view& text) {
  skip_blanks(text);
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(word.size());
  skip_blanks(text);
  return word;
}

}  // namespace

std::optional<BytesPerSecond> parse_bandwidth(std::string_view text) {
  skip_blanks(text);
  double number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc{} || !std::isfinite(number) || number <= 0) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
  const std::string_view name = take_word(text);
  const std::string_view direction = take_word(text);
  const auto* const unit = std::find_if(kUnits.begin(), kUnits.end(),
                                        [&](const Unit& each) { return each.name == name; });
  const bool both = direction == "bidirectional";
  if (unit == kUnits.end() || (!both && !direction.empty()) || !text.empty()) {
    return std::nullopt;
  }
  return BytesPerSecond{number * unit->bytes_per_second / (both ? 2 : 1)};
}

std::string to_text(BytesPerSecond rate) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g GB/s", rate.value() / 1e9);
  return text;
}

}  // namespace headroom::cost
