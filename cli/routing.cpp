#include "cli/routing.h"

#include <string_view>
#include <utility>

#include "cli/scalars.h"
#include "runtimes/registry.h"

namespace headroom::cli {
namespace {

constexpr std::string_view kRoutingImbalance = "routing-imbalance";

Result<cost::StepEstimate> estimate_under(const Question& question, double load) {
  return cost::estimate(question.model.spec, cost::with_load(question.request.plan, load),
                        question.device, question.budget);
}

Result<Bytes> reserved_with(const Question& question, double load) {
  const Result<cost::StepEstimate> estimate = estimate_under(question, load);
  return estimate ? Result<Bytes>(estimate->peak_reserved) : Result<Bytes>(estimate.error());
}

Error needs_experts() {
  return Error::invalid_argument(
      kRoutingImbalance,
      "needs a model with experts and expert parallelism, without a capacity factor: only then "
      "does the load of a GPU depend on the routing",
      {}, "add expert parallelism, or leave out --routing-imbalance");
}

}  // namespace

Result<std::optional<double>> read_imbalance(const Arguments& arguments,
                                             const ir::ModelSpec& model) {
  const auto text = arguments.value(kRoutingImbalance);
  if (!text) {
    return std::optional<double>{};
  }
  if (!model.moe) {
    return needs_experts();
  }
  constexpr double kMost = 1e3;
  const Result<double> imbalance = parse_real(kRoutingImbalance, *text, 0, kMost);
  if (!imbalance) {
    return imbalance.error();
  }
  const Result<double> possible = cost::busy_load({.experts = model.moe->experts,
                                                   .ranks = model.moe->experts,
                                                   .top_k = model.moe->top_k,
                                                   .imbalance = *imbalance});
  return possible ? Result<std::optional<double>>(*imbalance)
                  : Result<std::optional<double>>(possible.error());
}

Result<std::optional<RoutingAnswer>> ask_routing(const Arguments& arguments,
                                                 const Question& question, UsualRouting usual) {
  const ir::ModelSpec& model = question.model.spec;
  const Result<std::optional<double>> given = read_imbalance(arguments, model);
  if (!given) {
    return given.error();
  }
  const bool even = !*given && usual == UsualRouting::kEven;
  const double imbalance = given->value_or(cost::kPublishedImbalance);
  const ir::ParallelPlan& plan = question.request.plan;
  const std::optional<cost::Routing> routing =
      even ? std::nullopt : cost::routing_of(model, plan, imbalance);
  if (!routing) {
    const bool states = model.moe && ir::runtime_of(plan).expert_ranks(plan) > 1;
    return *given && !states ? Result<std::optional<RoutingAnswer>>(needs_experts())
                             : Result<std::optional<RoutingAnswer>>(std::nullopt);
  }
  const Result<cost::ExpertLoad> load = cost::busiest_rank(*routing);
  if (!load) {
    return *given ? Result<std::optional<RoutingAnswer>>(load.error())
                  : Result<std::optional<RoutingAnswer>>(std::nullopt);
  }
  const Result<Bytes> balanced = reserved_with(question, 1);
  const Result<Bytes> expected = reserved_with(question, load->expected);
  if (!balanced || !expected) {
    return balanced ? expected.error() : balanced.error();
  }
  return std::optional<RoutingAnswer>({.imbalance = imbalance,
                                       .assumed = !*given,
                                       .load = *load,
                                       .balanced = *balanced,
                                       .expected = *expected});
}

Result<std::optional<WorstRouting>> worst_routing(const Question& question) {
  const std::optional<cost::WorstLoad> load =
      cost::worst_load_of(question.model.spec, question.request.plan);
  if (!load) {
    return std::optional<WorstRouting>{};
  }
  const Result<cost::StepEstimate> reached = estimate_under(question, load->reached);
  if (!reached) {
    return reached.error();
  }
  Bytes bound = reached->peak_allocated;
  if (load->bound > load->reached) {
    const Result<cost::StepEstimate> above = estimate_under(question, load->bound);
    if (!above) {
      return above.error();
    }
    bound = above->peak_allocated;
  }
  return std::optional<WorstRouting>({.load = *load,
                                      .bound = bound,
                                      .allocated = reached->peak_allocated,
                                      .reserved = reached->peak_reserved,
                                      .verdict = reached->verdict});
}

}  // namespace headroom::cli
