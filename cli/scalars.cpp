#include "cli/scalars.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

namespace headroom::cli {

std::string decimal_text(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

std::string three_digits(double value) {
  constexpr int kDigits = 3;
  constexpr double kLargest = 1e15;  // An integer, and a double that is exact.
  const double size = std::abs(value);
  if (size >= kLargest || size == 0) {
    return real_text(value);
  }
  const auto decimals_of = [](double shown) {
    return kDigits - 1 - static_cast<int>(std::floor(std::log10(shown)));
  };
  const double scale = std::pow(10.0, decimals_of(size));
  // A value halfway between two figures is rounded to the even one, as `to_text(Bytes)` does.
  const double rounded = std::nearbyint(value * scale) / scale;
  const int decimals = decimals_of(std::abs(rounded));
  return decimals < 0 ? with_commas(std::llround(rounded)) : decimal_text(rounded, decimals);
}

std::string duration_text(double seconds) {
  // Three digits of 999.5 ms are 1000 ms, which the next unit shows.
  if (seconds >= 0.9995) {
    return three_digits(seconds) + " s";
  }
  return seconds >= 0.9995e-3 ? three_digits(1e3 * seconds) + " ms"
                              : three_digits(1e6 * seconds) + " us";
}

TableUnit unit_of_bytes(double largest) {
  constexpr auto kGibibyte = static_cast<double>(kGiB);
  constexpr auto kMebibyte = static_cast<double>(kMiB);
  return largest >= kGibibyte ? TableUnit{kGibibyte, "GiB"} : TableUnit{kMebibyte, "MiB"};
}

TableUnit unit_of_seconds(double largest) {
  return largest >= 1 ? TableUnit{1, "s"} : TableUnit{1e-3, "ms"};
}

std::string figure_in(double value, const TableUnit& unit) {
  constexpr double kLeast = 0.0005;
  const double scaled = value / unit.size;
  const double size = std::abs(scaled);
  if (size == 0) {
    return "0";
  }
  if (size < kLeast) {
    return scaled < 0 ? "-<0.001" : "<0.001";
  }
  return size < 0.9995 ? decimal_text(scaled, 3) : three_digits(scaled);
}

std::string table_figure(Bytes bytes, const TableUnit& unit) {
  return figure_in(static_cast<double>(bytes.value()), unit) + " " + std::string(unit.name);
}

std::string table_figure(Seconds time, const TableUnit& unit) {
  return figure_in(time.value(), unit) + " " + std::string(unit.name);
}

std::string percent_text(double share) {
  return decimal_text(100 * share, 1) + " %";
}

std::vector<std::string> split_at(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

}  // namespace headroom::cli
