#include "cli/fit_question.h"

#include <utility>

#include "cli/judged_question.h"
#include "costmodel/live_groups.h"
#include "costmodel/speedups.h"

namespace headroom::cli {

Result<FitAnswer> answer_fit(const Arguments& arguments, Question question, cost::TreeWalk tree) {
  Result<JudgedQuestion> result = judge_question(arguments, std::move(question));
  if (!result) {
    return std::move(result).error();
  }
  JudgedQuestion judged = std::move(result).value();
  FitAnswer answer{.arguments = arguments,
                   .question = std::move(judged.question),
                   .estimate = std::move(judged.estimate),
                   .confidence = std::move(judged.confidence),
                   .live = {},
                   .remedies = {},
                   .time = std::move(judged.time),
                   .routing = judged.routing,
                   .speedups = {},
                   .notes = {}};
  answer.live = cost::group_blocks(
      answer.estimate.program, cost::live_blocks(answer.estimate.program, answer.estimate.timeline,
                                                 answer.estimate.peak_site.event));
  if (answer.estimate.verdict != cost::Verdict::kFits) {
    const cost::RemedyQuestion asked{
        .model = answer.question.model.spec,
        .plan = answer.question.request.plan,
        .device = answer.question.device,
        .budget = answer.question.budget,
        .tree = tree,
        .machine = answer.time.machine ? &*answer.time.machine : nullptr,
        .judge = judged.judge};
    answer.remedies = cost::find_remedies(asked, answer.estimate);
  }
  if (arguments.has("faster") && answer.estimate.time) {
    const cost::SpeedupQuestion asked{.model = answer.question.model.spec,
                                      .plan = answer.question.request.plan,
                                      .device = answer.question.device,
                                      .budget = answer.question.budget,
                                      .machine = *answer.time.machine,
                                      .judge = judged.judge};
    answer.speedups = cost::find_speedups(asked, answer.estimate);
  }
  return answer;
}

}  // namespace headroom::cli
