#include "cli/scalars.h"

#include <array>
#include <charconv>
#include <cstdio>

namespace headroom::cli {

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

std::string decimal_text(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

std::string percent_text(double share) {
  return decimal_text(100 * share, 1) + " %";
}

Result<std::int64_t> parse_whole(std::string_view option, std::string_view text, std::int64_t least,
                                 std::int64_t greatest) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, fault] = std::from_chars(text.data(), end, value);
  if (fault != std::errc() || rest != end || value < least || value > greatest) {
    return Error::invalid_argument(
        option, text,
        "a whole number from " + std::to_string(least) + " to " + std::to_string(greatest));
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

}  // namespace headroom::cli
