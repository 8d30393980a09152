#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace headroom::check {

enum class Align : std::uint8_t { kLeft, kRight };

/// Lays out rows of cells in columns, two spaces apart. The first row is the heading and is
/// underlined.
[[nodiscard]] std::string text_table(const std::vector<std::vector<std::string>>& rows,
                                     const std::vector<Align>& columns);

/// "96.2 %". Only all is "100 %", and only none is "0 %".
[[nodiscard]] std::string percent(double ratio);

}  // namespace headroom::check
