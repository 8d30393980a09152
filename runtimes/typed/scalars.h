#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model_ir/base/result.h"
#include "model_ir/base/units.h"

/// Values of options as they are typed.
namespace headroom::ir {

/// Parses the value of `key`: "yes", "true" or empty, and "no" or "false".
[[nodiscard]] Result<bool> parse_switch(std::string_view option, const std::string& key,
                                        const std::string& text);
/// The shortest text that is read back as `value`.
[[nodiscard]] std::string real_text(double value);

/// "25MiB", "26214401B": a size as `parse_size` reads it, to the byte.
[[nodiscard]] std::string exact_size(Bytes bytes);

/// Parses the value of an option as a whole number in [least, greatest].
///
/// Errors:  kInvalidArgument.
[[nodiscard]] Result<std::int64_t> parse_whole(std::string_view option, std::string_view text,
                                               std::int64_t least, std::int64_t greatest);

/// "write 8192 or 8000 for 8k": what to type instead of a whole number that ends in k. Empty for
/// other texts, and for numbers above `greatest`.
[[nodiscard]] std::string without_k(std::string_view text, std::int64_t greatest);

/// The same as `parse_whole` for a real number in [least, greatest].
[[nodiscard]] Result<double> parse_real(std::string_view option, std::string_view text,
                                        double least, double greatest);

/// Parses the value of an option as a number in [least, greatest] that may end in k, M, B (or G) or
/// T: "15T" is 15e12.
[[nodiscard]] Result<double> parse_quantity(std::string_view option, std::string_view text,
                                            double least, double greatest);

/// Parses the value of an option as a size above zero with its unit: "70GiB", "80GB".
///
/// Errors:  kInvalidArgument, also for a number without a unit.
[[nodiscard]] Result<Bytes> parse_size(std::string_view option, const std::string& text);

}  // namespace headroom::ir
