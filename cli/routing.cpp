#include "cli/routing.h"

#include <string_view>
#include <utility>

#include "cli/scalars.h"
#include "costmodel/estimate.h"

namespace headroom::cli {
namespace {

constexpr std::string_view kRoutingImbalance = "routing-imbalance";

Result<Bytes> reserved_with(const Question& question, double load) {
  ir::ParallelPlan plan = question.request.plan;
  plan.megatron->expert_load = load;
  const Result<cost::StepEstimate> estimate =
      cost::estimate(question.model.spec, plan, question.device, question.budget);
  return estimate ? Result<Bytes>(estimate->peak_reserved) : Result<Bytes>(estimate.error());
}

}  // namespace

OptionSpec routing_option() {
  return {kRoutingImbalance, "CV", "",
          "Megatron-Core's experts on several ranks: standard deviation of an expert's tokens over "
          "their mean; the verdict is then that of one step in twenty"};
}

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
  std::optional<ir::MegatronPlan>& megatron = question.request.plan.megatron;
  const auto& moe = question.model.spec.moe;
  if (!moe || !megatron || megatron->expert == 1 || megatron->capacity_factor) {
    return Error::invalid_argument(
        kRoutingImbalance, *text, "experts that several ranks share, without a capacity factor",
        "--megatron ep=N; elsewhere every rank keeps its own tokens, or pads to a capacity");
  }
  const Result<cost::ExpertLoad> load = cost::busiest_rank({.experts = moe->experts,
                                                            .ranks = megatron->expert,
                                                            .top_k = moe->top_k,
                                                            .imbalance = *imbalance});
  if (!load) {
    return load.error();
  }
  const Result<Bytes> balanced = reserved_with(question, 1);
  const Result<Bytes> expected = reserved_with(question, load->expected);
  if (!balanced || !expected) {
    return balanced ? expected.error() : balanced.error();
  }
  megatron->expert_load = load->p95;
  return std::optional<RoutingAnswer>(
      {.imbalance = *imbalance, .load = *load, .balanced = *balanced, .expected = *expected});
}

}  // namespace headroom::cli
