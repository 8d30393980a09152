#pragma once

#include <span>
#include <string>

#include "costmodel/residuals.h"
#include "validators/measured/score.h"

namespace headroom::check {

/// The document of `headroom validate measured --json`, schema_version 1, with a final newline.
/// Peaks and times have an "interval" from those `residuals` that come from other sources.
[[nodiscard]] std::string report_json(const Scoring& scoring,
                                      std::span<const cost::ResidualSet> residuals = {});

/// The report for people: the summary as a table, the reasons of skips with their counts, and the
/// ten largest errors with phase and values. Lines have at most 100 columns, unless an id is
/// longer.
[[nodiscard]] std::string report_text(const Scoring& scoring);

}  // namespace headroom::check
