#include "model_ir/base/units.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace headroom {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t factor;
};

constexpr std::array<Unit, 12> kUnits = {{{"", 1},
                                          {"b", 1},
                                          {"kib", kKiB},
                                          {"mib", kMiB},
                                          {"gib", kGiB},
                                          {"tib", kGiB * 1024},
                                          {"kb", 1'000},
                                          {"mb", 1'000'000},
                                          {"gb", 1'000'000'000},
                                          {"tb", 1'000'000'000'000},
                                          {"ki", kKiB},
                                          {"gi", kGiB}}};

std::optional<std::int64_t> unit_factor(std::string_view name) {
  std::string lower;
  for (const char c : name) {
    lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  for (const Unit& unit : kUnits) {
    if (unit.name == lower) {
      return unit.factor;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string to_text(Bytes bytes) {
  constexpr std::array<const char*, 5> kNames = {"B", "KiB", "MiB", "GiB", "TiB"};
  // From 999.5 on, three digits round to 1000, which the next unit shows as 0.977.
  constexpr double kMost = 999.5;
  double value = static_cast<double>(bytes.value());
  std::size_t step = 0;
  while (std::abs(value) >= (step == 0 ? 1024 : kMost) && step + 1 < kNames.size()) {
    value /= 1024;
    ++step;
  }
  std::array<char, 48> text{};
  const double size = std::abs(value);
  const int fine = size < 0.9995 ? 3 : size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
  const int decimals = step == 0 ? 0 : fine;
  const int length =
      std::snprintf(text.data(), text.size(), "%.*f %s", decimals, value, kNames.at(step));
  return {text.data(), static_cast<std::size_t>(length)};
}

std::string with_commas(std::int64_t count) {
  std::string digits = std::to_string(count);
  const std::size_t first = digits.front() == '-' ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::optional<Bytes> parse_bytes(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) {
    text.remove_suffix(1);
  }
  constexpr std::int64_t kLimit = std::int64_t{1} << 60;
  const char* const end = text.data() + text.size();
  std::int64_t whole = 0;
  const auto integer = std::from_chars(text.data(), end, whole);
  double number = 0;
  const auto real = std::from_chars(text.data(), end, number);
  if (real.ec != std::errc{} || !std::isfinite(number) || number < 0) {
    return std::nullopt;
  }
  const char* unit_begin = real.ptr;
  while (unit_begin != end && *unit_begin == ' ') {
    ++unit_begin;
  }
  const auto factor = unit_factor({unit_begin, static_cast<std::size_t>(end - unit_begin)});
  if (!factor || number * static_cast<double>(*factor) > static_cast<double>(kLimit)) {
    return std::nullopt;
  }
  if (integer.ec == std::errc{} && integer.ptr == real.ptr) {
    return Bytes{whole * *factor};
  }
  return Bytes{std::llround(number * static_cast<double>(*factor))};
}

}  // namespace headroom
