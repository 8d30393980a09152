#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/result.h"

namespace headroom::cost::fit {

/// A file of comma-separated values without quotes; its first line names the columns.
struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  ///< Each as long as `columns`.

  /// Requires a column of that name.
  [[nodiscard]] std::size_t column(std::string_view name) const;
  [[nodiscard]] const std::string& text(std::size_t row, std::string_view name) const;
  /// Requires a number there.
  [[nodiscard]] double number(std::size_t row, std::string_view name) const;
  [[nodiscard]] std::int64_t integer(std::size_t row, std::string_view name) const;
};

/// Errors:  kEnvironment if it cannot be read; kInvalidInput for a line with too few or too many
///          values.
[[nodiscard]] Result<Table> read_table(const std::string& path);

/// The number in a cell. Requires that there is one.
[[nodiscard]] double number_in(const std::string& cell);

}  // namespace headroom::cost::fit
