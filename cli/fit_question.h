#pragma once

#include "cli/arguments.h"
#include "cli/question.h"
#include "cli/report/fit_answer.h"
#include "costmodel/remedies.h"
#include "model_ir/base/result.h"

namespace headroom::cli {

/// The answer of `fit` to a question, with the changes that help if it does not fit. The answer
/// refers to `arguments`.
///
/// Errors:  those of `judge_question`.
[[nodiscard]] Result<FitAnswer> answer_fit(const Arguments& arguments, Question question,
                                           cost::TreeWalk tree);

}  // namespace headroom::cli
