#pragma once

#include <string>
#include <vector>

#include "model_ir/base/result.h"
#include "validators/measured/score.h"

namespace headroom::check {

/// Reads the rows of all `paths`, in that order, then predicts and compares them.
///
/// Errors:  those of `read_rows`, for the first path that has any.
[[nodiscard]] Result<Scoring> score_files(const std::vector<std::string>& paths,
                                          const ScoreTools& tools, const ScoreFilter& filter,
                                          int threads);

/// The metric called `name` in reports.
///
/// Errors:  kInvalidArgument, with the closest name, for any other word.
[[nodiscard]] Result<Metric> metric_named(const std::string& name);

}  // namespace headroom::check
