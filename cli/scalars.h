#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model_ir/base/result.h"

namespace headroom::cli {

/// "yes", "true" or nothing, "no" or "false", as the value of `key`.
[[nodiscard]] Result<bool> parse_switch(std::string_view option, const std::string& key,
                                        const std::string& text);
/// The shortest text that reads back as `value`.
[[nodiscard]] std::string real_text(double value);
/// "12.50": `value` with so many digits behind the point.
[[nodiscard]] std::string decimal_text(double value, int digits);
/// "3.21", "4e+03": `value` to three digits.
[[nodiscard]] std::string three_digits(double value);
/// "412 ms", "3.21 s".
[[nodiscard]] std::string duration_text(double seconds);
/// "12.5 %" of a share of 0.125.
[[nodiscard]] std::string percent_text(double share);

/// The value of an option as a whole number in [least, greatest].
///
/// Errors:  kInvalidArgument.
[[nodiscard]] Result<std::int64_t> parse_whole(std::string_view option, std::string_view text,
                                               std::int64_t least, std::int64_t greatest);
/// The same for a number, both bounds included.
[[nodiscard]] Result<double> parse_real(std::string_view option, std::string_view text,
                                        double least, double greatest);

}  // namespace headroom::cli
