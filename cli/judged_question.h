#pragma once

#include <optional>
#include <vector>

#include "cli/arguments.h"
#include "cli/question.h"
#include "cli/routing.h"
#include "cli/time_options.h"
#include "costmodel/confidence.h"
#include "costmodel/estimate.h"
#include "model_ir/base/result.h"

namespace headroom::cli {

/// A question and its answer, before anybody looks for a change of the plan.
struct JudgedQuestion {
  Question question;  ///< With --routing-imbalance, its plan has the load of the busiest rank.
  TimeRequest time;
  std::optional<RoutingAnswer> routing;  ///< If --routing-imbalance was given.
  cost::StepEstimate estimate;           ///< Its verdict follows from the chance to fit.
  cost::Confidence confidence;
  cost::Judge judge;  ///< Judges other plans as this one was judged.
};

/// The options that a verdict depends on besides the plan: those of the machine, the calibration
/// and the routing.
[[nodiscard]] std::vector<OptionSpec> judging_options();

/// Answers `question` as `fit` does: peak, step time, intervals and the verdict that follows from
/// the chance to fit. Options that the verb does not have are not asked for.
///
/// Errors:  those of `read_time_options`, `ask_routing`, `cost::estimate`, `load_residuals` and
///          `read_calibration`.
[[nodiscard]] Result<JudgedQuestion> judge_question(const Arguments& arguments, Question question);

}  // namespace headroom::cli
