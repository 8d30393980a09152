#pragma once

#include <span>
#include <string>
#include <vector>

#include "costmodel/residuals.h"
#include "validators/measured/explanations.h"
#include "validators/measured/score.h"

namespace headroom::check {

/// The text of docs/accuracy.md: for each source and runtime how many rows were compared and
/// skipped, the worst rows with why they are missed, how often intervals from the errors of other
/// sources held the measured value, and for each metric the exact share, the median and the worst
/// error.
[[nodiscard]] std::string accuracy_markdown(const Scoring& scoring,
                                            const std::vector<Explanation>& explanations,
                                            std::span<const cost::ResidualSet> residuals);

}  // namespace headroom::check
