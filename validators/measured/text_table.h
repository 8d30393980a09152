#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace headroom::check {

enum class Align : std::uint8_t { kLeft, kRight };

/// Lays out rows of cells in columns two spaces apart; the first row is the heading, underlined.
[[nodiscard]] std::string text_table(const std::vector<std::vector<std::string>>& rows,
                                     const std::vector<Align>& columns);

/// "96.2 %"; "100 %" only for all, "0 %" only for none.
[[nodiscard]] std::string percent(double ratio);

}  // namespace headroom::check
