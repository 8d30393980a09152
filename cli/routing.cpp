#include "cli/routing.h"

#include <string_view>
#include <utility>

#include "cli/scalars.h"
#include "costmodel/estimate.h"
#include "runtimes/registry.h"

namespace headroom::cli {
namespace {

constexpr std::string_view kRoutingImbalance = "routing-imbalance";

Result<Bytes> reserved_with(const Question& question, double load) {
  ir::ParallelPlan plan = question.request.plan;
  ir::runtime_of(plan).set_expert_load(plan, load);
  const Result<cost::StepEstimate> estimate =
      cost::estimate(question.model.spec, plan, question.device, question.budget);
  return estimate ? Result<Bytes>(estimate->peak_reserved) : Result<Bytes>(estimate.error());
}

}  // namespace

Result<std::optional<RoutingAnswer>> ask_routing(const Arguments& arguments, Question& question) {
  const auto text = arguments.value(kRoutingImbalance);
  if (!text) {
    return std::optional<RoutingAnswer>{};
  }
  constexpr double kMost = 1e3;
  const Result<double> imbalance = parse_real(kRoutingImbalance, *text, 0, kMost);
  if (!imbalance) {
    return imbalance.error();
  }
  ir::ParallelPlan& plan = question.request.plan;
  const ir::Runtime& runtime = ir::runtime_of(plan);
  const std::int64_t ranks = runtime.expert_ranks(plan);
  const auto& moe = question.model.spec.moe;
  if (!moe || ranks == 1) {
    return Error::invalid_argument(
        kRoutingImbalance,
        "needs a model with experts and expert parallelism, without a capacity factor: only then "
        "does the load of a GPU depend on the routing",
        {}, "add expert parallelism, or leave out --routing-imbalance");
  }
  const Result<cost::ExpertLoad> load = cost::busiest_rank(
      {.experts = moe->experts, .ranks = ranks, .top_k = moe->top_k, .imbalance = *imbalance});
  if (!load) {
    return load.error();
  }
  const Result<Bytes> balanced = reserved_with(question, 1);
  const Result<Bytes> expected = reserved_with(question, load->expected);
  if (!balanced || !expected) {
    return balanced ? expected.error() : balanced.error();
  }
  runtime.set_expert_load(plan, load->p95);
  return std::optional<RoutingAnswer>(
      {.imbalance = *imbalance, .load = *load, .balanced = *balanced, .expected = *expected});
}

}  // namespace headroom::cli
