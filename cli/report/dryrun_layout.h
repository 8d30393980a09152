#pragma once

#include <cstddef>
#include <string>

#include "cli/scalars.h"
#include "cli/terminal.h"
#include "model_ir/base/units.h"

/// Columns of the screen that `dryrun` answers with.
namespace headroom::cli {

inline constexpr std::size_t kCategoryColumns = 18;
inline constexpr std::size_t kDryRunSizeColumns = 10;

[[nodiscard]] inline TableUnit unit_for_dry_run(Bytes largest) {
  return unit_of_bytes(static_cast<double>(largest.value()));
}

[[nodiscard]] inline std::string dry_run_size(Bytes bytes, const TableUnit& unit) {
  return pad_left(table_figure(bytes, unit), kDryRunSizeColumns);
}

}  // namespace headroom::cli
