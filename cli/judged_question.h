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
  Question question;
  ir::ParallelPlan plan;  ///< The question's, with the load of the busiest expert-parallel rank.
  TimeRequest time;
  std::optional<RoutingAnswer> routing;  ///< If the load of a rank depends on the routing.
  /// The peak is that of `plan`, the time that of even shares. Its verdict follows from the chance
  /// to fit.
  cost::StepEstimate estimate;
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
[[nodiscard]] Result<JudgedQuestion> judge_question(const Arguments& arguments, Question question,
                                                    UsualRouting usual);

}  // namespace headroom::cli
