#pragma once

#include <string>
#include <vector>

#include "cli/comparison.h"
#include "cli/terminal.h"

namespace headroom::cli {

/// The plans in columns; as many columns in a block as the terminal has room for. What is refused,
/// and what the host lacks, stands below.
[[nodiscard]] std::string comparison_text(const std::vector<ComparedPlan>& plans,
                                          const Terminal& terminal);
/// The answer as `configs/schema/compare.schema.json` has it.
[[nodiscard]] std::string comparison_json(const std::vector<ComparedPlan>& plans,
                                          const std::vector<std::string>& notes);

}  // namespace headroom::cli
