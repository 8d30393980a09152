#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/result.h"
#include "model_ir/base/units.h"

namespace headroom::cli {

/// Parses the value of `key`: "yes", "true" or empty, and "no" or "false".
[[nodiscard]] Result<bool> parse_switch(std::string_view option, const std::string& key,
                                        const std::string& text);
/// The shortest text that is read back as `value`.
[[nodiscard]] std::string real_text(double value);
/// "12.50": `value` with `digits` digits after the decimal point.
[[nodiscard]] std::string decimal_text(double value, int digits);
/// "3.21", "4e+03": `value` with three significant digits.
[[nodiscard]] std::string three_digits(double value);
/// "412 ms", "3.21 s".
[[nodiscard]] std::string duration_text(double seconds);
/// "12.5 %" for a share of 0.125.
[[nodiscard]] std::string percent_text(double share);

/// The parts of `text` between separators, at least one. Two separators in a row have an empty part
/// between them.
[[nodiscard]] std::vector<std::string> split_at(std::string_view text, char separator);

/// Parses the value of an option as a whole number in [least, greatest].
///
/// Errors:  kInvalidArgument.
[[nodiscard]] Result<std::int64_t> parse_whole(std::string_view option, std::string_view text,
                                               std::int64_t least, std::int64_t greatest);
/// The same for a number that may end in k, M, B (or G) or T: "15T" is 15e12.
[[nodiscard]] Result<double> parse_quantity(std::string_view option, std::string_view text,
                                            double least, double greatest);
/// The same for a real number in [least, greatest].
[[nodiscard]] Result<double> parse_real(std::string_view option, std::string_view text,
                                        double least, double greatest);

/// Parses the value of an option as a size above zero with its unit: "70GiB", "80GB".
///
/// Errors:  kInvalidArgument, also for a number without a unit.
[[nodiscard]] Result<Bytes> parse_size(std::string_view option, const std::string& text);

}  // namespace headroom::cli
