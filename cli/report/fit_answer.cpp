#include "cli/report/fit_answer.h"

namespace headroom::cli {

double fragmentation_of(const cost::StepEstimate& estimate) {
  const auto reserved = static_cast<double>(estimate.peak_reserved.value());
  const auto allocated = static_cast<double>(estimate.peak_allocated.value());
  return reserved > 0 ? (reserved - allocated) / reserved : 0.0;
}

std::string next_command(const FitAnswer& answer) {
  const Question& question = answer.question;
  if (answer.remedies && !answer.remedies->cheapest.empty()) {
    return command_line("fit", answer.arguments, question, answer.remedies->cheapest.front().plan);
  }
  return command_line("timeline", answer.arguments, question, question.request.plan) +
         " --format chrome --output timeline.json";
}

}  // namespace headroom::cli
