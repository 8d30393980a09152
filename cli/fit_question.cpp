#include "cli/fit_question.h"

#include <algorithm>
#include <utility>

#include "cli/judged_question.h"
#include "costmodel/live_groups.h"
#include "costmodel/speedups.h"

namespace headroom::cli {
namespace {

/// Takes the load of the busiest rank out of the plans that are proposed for `loaded`: it is
/// assumed of each of them.
void spread_evenly(cost::Remedies& remedies, const ir::ParallelPlan& even,
                   const ir::ParallelPlan& loaded) {
  if (even == loaded) {
    return;
  }
  const auto spread = [](cost::Remedy& remedy) { remedy.plan = cost::with_load(remedy.plan, 1); };
  std::ranges::for_each(remedies.cheapest, spread);
  std::ranges::for_each(remedies.tree, spread);
  for (std::optional<cost::Remedy>* const one : {&remedies.wider, &remedies.leanest}) {
    if (*one) {
      spread(**one);
    }
  }
}

}  // namespace

Result<FitAnswer> answer_fit(const Arguments& arguments, Question question, cost::TreeWalk tree) {
  Result<JudgedQuestion> result =
      judge_question(arguments, std::move(question), UsualRouting::kPublished);
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
                   .worst = {},
                   .speedups = {},
                   .notes = {}};
  Result<std::optional<WorstRouting>> worst = worst_routing(answer.question);
  if (!worst) {
    return std::move(worst).error();
  }
  answer.worst = std::move(worst).value();
  answer.live = cost::group_blocks(
      answer.estimate.program, cost::live_blocks(answer.estimate.program, answer.estimate.timeline,
                                                 answer.estimate.peak_site.event));
  if (answer.estimate.verdict != cost::Verdict::kFits) {
    const cost::RemedyQuestion asked{
        .model = answer.question.model.spec,
        .plan = judged.plan,
        .device = answer.question.device,
        .budget = answer.question.budget,
        .tree = tree,
        .machine = answer.time.machine ? &*answer.time.machine : nullptr,
        .load = judged.routing ? judged.routing->load.p95 : 1,
        .judge = judged.judge};
    answer.remedies = cost::find_remedies(asked, answer.estimate);
    spread_evenly(*answer.remedies, answer.question.request.plan, judged.plan);
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
