#include "validators/measured/text_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace headroom::check {

std::string text_table(const std::vector<std::vector<std::string>>& rows,
                       const std::vector<Align>& columns) {
  std::vector<std::size_t> widths(columns.size());
  for (const std::vector<std::string>& row : rows) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const std::string gap(widths[i] - row[i].size(), ' ');
      line += i == 0 ? "" : "  ";
      line += columns[i] == Align::kLeft ? row[i] + gap : gap + row[i];
    }
    line.resize(line.find_last_not_of(' ') + 1);
    text += line + "\n";
    if (&row == &rows.front()) {
      text += std::string(line.size(), '-') + "\n";
    }
  }
  return text;
}

std::string percent(double ratio) {
  const double value = std::abs(ratio) * 100;
  if (value == 0 || value == 100) {
    return value == 0 ? "0 %" : (ratio < 0 ? "-100 %" : "100 %");
  }
  // Values near 100 get more digits, and tiny values are powers of ten, so that "almost all" never
  // looks like all, and "almost none" never like none.
  const double from_end = std::abs(100 - value);
  const int digits = from_end >= 0.1 && value >= 0.1 ? 1 : (from_end >= 0.001 ? 3 : 6);
  const bool far = value >= 1e6 || value < 0.001;
  std::array<char, 48> text{};
  const int length = far ? std::snprintf(text.data(), text.size(), "%.1e %%", ratio * 100)
                         : std::snprintf(text.data(), text.size(), "%.*f %%", digits, ratio * 100);
  return {text.data(), static_cast<std::size_t>(length)};
}

}  // namespace headroom::check
