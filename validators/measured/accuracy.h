#pragma once

#include <string>
#include <vector>

#include "validators/measured/row.h"
#include "validators/measured/score.h"

namespace headroom::check {

/// The text of docs/accuracy.md: for each source and runtime how many rows were compared and
/// skipped, and for each metric the exact share, the median and the worst error.
[[nodiscard]] std::string accuracy_markdown(const Scoring& scoring);

}  // namespace headroom::check
