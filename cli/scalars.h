#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/result.h"
#include "model_ir/base/units.h"
#include "runtimes/typed/scalars.h"

namespace headroom::cli {

using ir::exact_size;
using ir::parse_quantity;
using ir::parse_real;
using ir::parse_size;
using ir::parse_switch;
using ir::parse_whole;
using ir::real_text;

/// "12.50": `value` with `digits` digits after the decimal point.
[[nodiscard]] std::string decimal_text(double value, int digits);
/// "3.21", "0.046", "4,120": `value` with three significant digits, never an exponent.
[[nodiscard]] std::string three_digits(double value);
/// "412 ms", "3.21 s".
[[nodiscard]] std::string duration_text(double seconds);

/// A unit that all figures of a table share.
struct TableUnit {
  double size = 1;  ///< In bytes or seconds.
  std::string_view name;
};
/// The unit that suits the largest figure of a table: GiB or MiB, s or ms.
[[nodiscard]] TableUnit unit_of_bytes(double largest);
[[nodiscard]] TableUnit unit_of_seconds(double largest);
/// "29.9", "0.393", "<0.001", "0": three significant digits, and not more than three decimals.
[[nodiscard]] std::string figure_in(double value, const TableUnit& unit);
/// The same with the unit: "29.9 GiB".
[[nodiscard]] std::string table_figure(Bytes bytes, const TableUnit& unit);
[[nodiscard]] std::string table_figure(Seconds time, const TableUnit& unit);

/// "12.5 %" for a share of 0.125.
[[nodiscard]] std::string percent_text(double share);

/// The parts of `text` between separators, at least one. Two separators in a row have an empty part
/// between them.
[[nodiscard]] std::vector<std::string> split_at(std::string_view text, char separator);

}  // namespace headroom::cli
