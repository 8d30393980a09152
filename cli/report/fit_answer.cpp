#include "cli/report/fit_answer.h"

#include <bit>
#include <cstdint>
#include <optional>

#include "runtimes/plan_check.h"
#include "runtimes/registry.h"

namespace headroom::cli {
namespace {

/// A plan with twice the pipeline stages on twice the GPUs, with everything sharded and recomputed
/// that can be. If the layers cannot be divided like that, the given plan. Nothing if more stages
/// are not a remedy.
std::optional<ir::ParallelPlan> with_more_stages(const Question& question) {
  const ir::ParallelPlan& asked = question.request.plan;
  const std::optional<ir::ParallelPlan> staged = ir::runtime_of(asked).with_more_stages(asked);
  if (!staged) {
    return std::nullopt;
  }
  ir::ParallelPlan wider = *staged;
  for (const cost::Change& change :
       {cost::Change::kSequenceParallel, cost::Change::kZero1, cost::Change::kCheckpointing}) {
    wider = cost::with_change(wider, change, question.device).value_or(wider);
  }
  return ir::check_plan(question.model.spec, wider) ? wider : asked;
}

/// The cheapest plan that fits. If there is none, a plan that shards everything over as many GPUs
/// as the model's states need.
ir::ParallelPlan next_plan(const FitAnswer& answer) {
  const cost::Remedies& remedies = *answer.remedies;
  const ir::ParallelPlan& asked = answer.question.request.plan;
  const bool mends =
      !remedies.cheapest.empty() && remedies.cheapest.front().verdict != cost::Verdict::kDoesNotFit;
  if (const auto staged = mends ? std::nullopt : with_more_stages(answer.question)) {
    return *staged;
  }
  if (mends || remedies.least_gpus <= asked.world) {
    return remedies.cheapest.empty() ? asked : remedies.cheapest.front().plan;
  }
  ir::ParallelPlan wider = asked;
  wider.world =
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(remedies.least_gpus)));
  return cost::with_change(wider, cost::Change::kZero3, answer.question.device).value_or(wider);
}

}  // namespace

double fragmentation_of(const cost::StepEstimate& estimate) {
  const auto reserved = static_cast<double>(estimate.peak_reserved.value());
  const auto allocated = static_cast<double>(estimate.peak_allocated.value());
  return reserved > 0 ? (reserved - allocated) / reserved : 0.0;
}

std::string next_command(const FitAnswer& answer) {
  const Question& question = answer.question;
  if (answer.remedies) {
    return command_line("fit", answer.arguments, question, next_plan(answer));
  }
  return command_line("timeline", answer.arguments, question, question.request.plan) +
         " --format chrome --output timeline.json";
}

}  // namespace headroom::cli
