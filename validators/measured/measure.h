#pragma once

#include <string>
#include <vector>

#include "model_ir/base/result.h"
#include "validators/measured/score.h"

namespace headroom::check {

/// Reads the rows of all `paths` in that order, predicts them and compares.
///
/// Errors:  those of `read_rows`, for the first path that has an error; kInvalidArgument if
///          `filter` names a source that no row has.
[[nodiscard]] Result<Scoring> score_files(const std::vector<std::string>& paths,
                                          const ScoreTools& tools, const ScoreFilter& filter,
                                          int threads);

/// The metric that reports call `name`.
///
/// Errors:  kInvalidArgument, with the closest name, if there is no such metric.
[[nodiscard]] Result<Metric> metric_named(const std::string& name);

}  // namespace headroom::check
