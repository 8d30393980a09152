#pragma once

#include <span>
#include <string>
#include <vector>

#include "costmodel/residuals.h"
#include "validators/measured/explanations.h"
#include "validators/measured/score.h"

namespace headroom::check {

/// The text of docs/accuracy.md. It gives for each source and runtime how many rows were compared
/// and skipped, which rows have the largest errors and why, and how often the intervals from the
/// errors of other sources contained the measured value. It also gives for each metric the share of
/// exact scores, the median error and the worst error.
[[nodiscard]] std::string accuracy_markdown(const Scoring& scoring,
                                            const std::vector<Explanation>& explanations,
                                            std::span<const cost::ResidualSet> residuals);

}  // namespace headroom::check
