#include "cli/report/fit_answer.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "cli/report/host_text.h"
#include "costmodel/remedy_judge.h"
#include "model_ir/base/counted.h"

namespace headroom::cli {
namespace {

/// The cheapest plan that mends, on more GPUs if need be; null if there is none. A plan on more
/// GPUs comes before one that trains something else.
const ir::ParallelPlan* next_plan(const cost::Remedies& remedies) {
  if (mends(remedies) && !(remedies.wider && trains_otherwise(remedies.cheapest.front()))) {
    return &remedies.cheapest.front().plan;
  }
  return remedies.wider ? &remedies.wider->plan : nullptr;
}

/// Names the resource that is short if no plan was found that fits.
std::string shortage(const FitAnswer& answer) {
  const cost::Remedies& remedies = *answer.remedies;
  if (remedies.least_gpus == 0) {
    return "more than " + to_text(answer.estimate.outside_bytes) +
           " of GPU memory leave something to PyTorch";
  }
  if (remedies.cut_short || !remedies.leanest) {
    return remedies.cut_short ? "no plan that fits was found within the time limit"
                              : "no plan fits, and no framework shards this one further";
  }
  const cost::Remedy& lean = *remedies.leanest;
  const std::string options = changed_options(answer.question, lean.plan);
  const std::string host = host_shortage(lean.host);
  const std::string lack =
      lean.margin >= Bytes{0} && !host.empty()
          ? host
          : "GPU memory is short by " + to_text(std::max(-lean.margin, Bytes{0})) + " on each GPU";
  return "no plan that was found fits: with " + counted(lean.plan.world, "GPU") +
         (options.empty() ? "" : " and the leanest options (" + options + ")") + ", " + lack;
}

}  // namespace

bool errors_apply(const FitAnswer& answer) {
  return is_measured(answer.question.device) || answer.confidence.basis.own_runs > 0;
}

bool mends(const cost::Remedies& remedies) {
  return !remedies.cheapest.empty() &&
         cost::is_yes(remedies.cheapest.front().verdict, remedies.cheapest.front().chance);
}

double fragmentation_of(const cost::StepEstimate& estimate) {
  const auto reserved = static_cast<double>(estimate.peak_reserved.value());
  const auto allocated = static_cast<double>(estimate.peak_allocated.value());
  return reserved > 0 ? (reserved - allocated) / reserved : 0.0;
}

std::string next_command(const FitAnswer& answer) {
  const Question& question = answer.question;
  if (answer.remedies) {
    const ir::ParallelPlan* const plan = next_plan(*answer.remedies);
    return plan != nullptr ? command_line("fit", answer.arguments, question, *plan)
                           : shortage(answer);
  }
  return command_line("timeline", answer.arguments, question, question.request.plan) +
         " --format chrome --output timeline.json";
}

}  // namespace headroom::cli
