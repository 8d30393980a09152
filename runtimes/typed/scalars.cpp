#include "runtimes/typed/scalars.h"

#include <array>
#include <charconv>
#include <optional>
#include <utility>

namespace headroom::ir {

Result<bool> parse_switch(std::string_view option, const std::string& key,
                          const std::string& text) {
  if (text.empty() || text == "yes" || text == "true" || text == "True") {
    return true;
  }
  if (text == "no" || text == "false" || text == "False") {
    return false;
  }
  return Error::invalid_argument(option, key + "=" + text, "yes or no");
}

std::string real_text(double value) {
  std::array<char, 40> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return {digits.data(), end.ptr};
}

std::string exact_size(Bytes bytes) {
  constexpr std::array<std::pair<std::int64_t, std::string_view>, 3> kUnits = {
      {{kGiB, "GiB"}, {kMiB, "MiB"}, {kKiB, "KiB"}}};
  for (const auto& [size, name] : kUnits) {
    if (bytes > Bytes{0} && bytes.value() % size == 0) {
      return std::to_string(bytes.value() / size) + std::string(name);
    }
  }
  return std::to_string(bytes.value()) + "B";
}

std::string without_k(std::string_view text, std::int64_t greatest) {
  std::int64_t thousands = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, fault] = std::from_chars(text.data(), end, thousands);
  const bool is_k = fault == std::errc() && rest + 1 == end && (*rest == 'k' || *rest == 'K');
  if (!is_k || thousands < 1 || thousands > greatest / 1024) {
    return "";
  }
  return "write " + std::to_string(1024 * thousands) + " or " + std::to_string(1000 * thousands) +
         " for " + std::string(text);
}

namespace {

/// What to type instead of a size whose unit ends too soon, such as 70G; empty for other texts.
std::string with_whole_unit(const std::string& text) {
  if (text.empty() || std::string_view("KMGT").find(text.back()) == std::string_view::npos ||
      !parse_bytes(text + "iB")) {
    return "";
  }
  return "write " + text + "iB, or " + text + "B for powers of ten";
}

}  // namespace

Result<std::int64_t> parse_whole(std::string_view option, std::string_view text, std::int64_t least,
                                 std::int64_t greatest) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, fault] = std::from_chars(text.data(), end, value);
  if (fault != std::errc() || rest != end || value < least || value > greatest) {
    return Error::invalid_argument(
        option, text,
        "a whole number from " + std::to_string(least) + " to " + std::to_string(greatest),
        without_k(text, greatest));
  }
  return value;
}

Result<double> parse_real(std::string_view option, std::string_view text, double least,
                          double greatest) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, fault] = std::from_chars(text.data(), end, value);
  if (fault != std::errc() || rest != end || !(value >= least && value <= greatest)) {
    return Error::invalid_argument(
        option, text, "a number from " + real_text(least) + " to " + real_text(greatest));
  }
  return value + 0.0;  // "-0" becomes 0.
}

Result<double> parse_quantity(std::string_view option, std::string_view text, double least,
                              double greatest) {
  constexpr std::array<std::pair<char, double>, 6> kSuffixes = {
      {{'k', 1e3}, {'K', 1e3}, {'M', 1e6}, {'B', 1e9}, {'G', 1e9}, {'T', 1e12}}};
  for (const auto& [suffix, factor] : kSuffixes) {
    if (text.ends_with(suffix)) {
      const std::string_view digits = text.substr(0, text.size() - 1);
      const Result<double> value = parse_real(option, digits, least / factor, greatest / factor);
      return value ? Result<double>(*value * factor)
                   : Result<double>(Error::invalid_argument(
                         option, text, "a number such as 15e12 or 15T (k, M, B or G, T)"));
    }
  }
  return parse_real(option, text, least, greatest);
}

Result<Bytes> parse_size(std::string_view option, const std::string& text) {
  constexpr std::string_view kExpected = "a size with its unit, such as 70GiB or 80GB";
  const std::optional<Bytes> bytes = parse_bytes(text);
  if (bytes == Bytes{0}) {
    return Error::invalid_argument(option, text, "a size above 0, such as 70GiB or 80GB");
  }
  if (!bytes) {
    return Error::invalid_argument(option, text, std::string(kExpected), with_whole_unit(text));
  }
  if (text.find_first_not_of("0123456789.") == std::string::npos) {
    const std::string typed = "use --" + std::string(option) + " " + text;
    return Error::invalid_argument(option, text + " without a unit", std::string(kExpected),
                                   typed + "GiB, or " + text + "B for bytes");
  }
  return *bytes;
}

}  // namespace headroom::ir
