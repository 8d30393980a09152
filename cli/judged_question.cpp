#include "cli/judged_question.h"

#include <utility>

#include "cli/calibration.h"
#include "costmodel/routed_estimate.h"

namespace headroom::cli {
namespace {

/// Intervals, the verdict that follows from them, and what judges other plans alike.
Status judge_confidence(const Arguments& arguments, JudgedQuestion& judged) {
  const ir::ParallelPlan& plan = judged.question.request.plan;
  Result<std::vector<cost::ResidualSet>> residuals = load_residuals(arguments);
  if (!residuals) {
    return std::move(residuals).error();
  }
  Result<cost::Calibration> own = read_calibration(arguments, cost::residual_runtime(plan));
  if (!own) {
    return std::move(own).error();
  }
  judged.confidence = cost::confidence_of(judged.estimate, plan, *residuals, *own);
  cost::settle_verdict(judged.estimate, judged.confidence);
  judged.judge = cost::judge_by(std::move(residuals).value(), std::move(own).value());
  return ok();
}

}  // namespace

std::vector<OptionSpec> judging_options() {
  std::vector<OptionSpec> options = machine_options();
  const std::vector<OptionSpec> calibration = calibration_options();
  options.insert(options.end(), calibration.begin(), calibration.end());
  options.push_back(routing_option());
  return options;
}

Result<JudgedQuestion> judge_question(const Arguments& arguments, Question question,
                                      UsualRouting usual) {
  Result<TimeRequest> time = read_time_options(arguments, question.device);
  if (!time) {
    return std::move(time).error();
  }
  Result<std::optional<RoutingAnswer>> routing = ask_routing(arguments, question, usual);
  if (!routing) {
    return std::move(routing).error();
  }
  const double load = *routing ? (*routing)->load.p95 : 1;
  ir::ParallelPlan plan =
      *routing ? cost::with_load(question.request.plan, load) : question.request.plan;
  Result<cost::StepEstimate> estimate =
      cost::estimate_with_load(question.model.spec, question.request.plan, load, question.device,
                               question.budget, time->machine ? &*time->machine : nullptr);
  if (!estimate) {
    return std::move(estimate).error();
  }
  JudgedQuestion judged{.question = std::move(question),
                        .plan = std::move(plan),
                        .time = std::move(time).value(),
                        .routing = std::move(routing).value(),
                        .estimate = std::move(estimate).value(),
                        .confidence = {},
                        .judge = {}};
  if (Status known = judge_confidence(arguments, judged); !known) {
    return std::move(known).error();
  }
  return judged;
}

}  // namespace headroom::cli
