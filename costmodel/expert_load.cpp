#include "costmodel/expert_load.h"

#include <algorithm>
#include <boost/math/distributions/beta.hpp>
#include <cmath>
#include <string>

#include "runtimes/registry.h"

namespace headroom::cost {
namespace {

/// Computes in double. In long double, Boost.Math would initialise tables when the program starts,
/// which fails under valgrind.
using Policy = boost::math::policies::policy<boost::math::policies::promote_double<false>>;
using Beta = boost::math::beta_distribution<double, Policy>;

/// Expected maximum of `ranks` shares in [0, 1]: the integral of 1 - F^ranks.
double mean_of_maximum(const Beta& share, double ranks) {
  constexpr int kCells =
      4096;  // Midpoints; the integrand is monotone, so the error is below 1/8192.
  double sum = 0;
  for (int i = 0; i < kCells; ++i) {
    sum += 1 - std::pow(boost::math::cdf(share, (i + 0.5) / kCells), ranks);
  }
  return sum / kCells;
}

/// The distribution of a rank's share; nothing if every rank has an even one.
Result<std::optional<Beta>> share_of(const Routing& routing) {
  const auto experts = static_cast<double>(routing.experts);
  const double most = std::sqrt(std::max(experts - 1, 0.0));
  if (!(routing.imbalance >= 0) || (routing.imbalance > 0 && routing.imbalance >= most)) {
    return Error::invalid_argument(
        "routing-imbalance", std::to_string(routing.imbalance),
        "at least 0 and below " + std::to_string(most) + ", where one expert takes every token",
        "0.1 is well balanced, 1 is poor");
  }
  if (routing.ranks == 1 || routing.imbalance == 0) {
    return std::optional<Beta>();
  }
  // Var(p) / mean(p)^2 = (E - 1) / (E alpha + 1).
  const double alpha = ((experts - 1) / (routing.imbalance * routing.imbalance) - 1) / experts;
  const double local = experts / static_cast<double>(routing.ranks);
  return std::optional(Beta(alpha * local, alpha * (experts - local)));
}

/// The load of a rank that gets as many copies of each token as it has experts for.
double most_load(const Routing& routing) {
  const std::int64_t local = routing.experts / routing.ranks;
  return static_cast<double>(routing.ranks) * static_cast<double>(std::min(routing.top_k, local)) /
         static_cast<double>(routing.top_k);
}

double p95_of(const Routing& routing, const Beta& share) {
  constexpr double kLevel = 0.95;
  const auto ranks = static_cast<double>(routing.ranks);
  const double p95 = ranks * boost::math::quantile(share, std::pow(kLevel, 1 / ranks));
  return std::clamp(p95, 1.0, most_load(routing));
}

/// Whether a load changes plans of this framework.
bool follows_loads(const ir::ParallelPlan& plan) {
  return with_load(plan, 1) != with_load(plan, 2);
}

}  // namespace

Result<ExpertLoad> busiest_rank(const Routing& routing) {
  const Result<std::optional<Beta>> share = share_of(routing);
  if (!share) {
    return share.error();
  }
  if (!*share) {
    return ExpertLoad{};
  }
  const auto ranks = static_cast<double>(routing.ranks);
  const double mean = ranks * mean_of_maximum(**share, ranks);
  return ExpertLoad{.expected = std::clamp(mean, 1.0, most_load(routing)),
                    .p95 = p95_of(routing, **share)};
}

Result<double> busy_load(const Routing& routing) {
  const Result<std::optional<Beta>> share = share_of(routing);
  if (!share) {
    return share.error();
  }
  return *share ? p95_of(routing, **share) : 1.0;
}

std::optional<Routing> routing_of(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                  double imbalance) {
  const std::int64_t ranks = model.moe ? ir::runtime_of(plan).expert_ranks(plan) : 1;
  if (ranks == 1 || plan != with_load(plan, 1)) {
    return std::nullopt;
  }
  return Routing{.experts = model.moe->experts,
                 .ranks = ranks,
                 .top_k = model.moe->top_k,
                 .imbalance = imbalance};
}

double busy_load_of(const ir::ModelSpec& model, const ir::ParallelPlan& plan, double imbalance) {
  const std::optional<Routing> routing =
      imbalance > 0 ? routing_of(model, plan, imbalance) : std::nullopt;
  const Result<double> load = routing ? busy_load(*routing) : Result<double>(1.0);
  return load ? *load : 1.0;
}

ir::ParallelPlan with_load(const ir::ParallelPlan& plan, double load) {
  ir::ParallelPlan loaded = plan;
  ir::runtime_of(plan).set_expert_load(loaded, load);
  return loaded;
}

std::optional<WorstLoad> worst_load_of(const ir::ModelSpec& model, const ir::ParallelPlan& plan) {
  if (!model.moe || !follows_loads(plan)) {
    return std::nullopt;
  }
  const ir::Runtime& runtime = ir::runtime_of(plan);
  const Routing routing{.experts = model.moe->experts,
                        .ranks = runtime.expert_ranks(plan),
                        .top_k = model.moe->top_k,
                        .imbalance = 0};
  if (routing.ranks == 1) {
    return WorstLoad{};
  }
  WorstLoad worst{.reached = most_load(routing), .bound = most_load(routing)};
  if (runtime.product_dtype(plan) == ir::DType::kFp8) {
    constexpr double kMostPadding = 31;  // Rows of an expert: MXFP8 pads to a multiple of 32.
    const auto local = static_cast<double>(routing.experts / routing.ranks);
    const ir::Mesh& mesh = plan.mesh;
    const auto tokens = static_cast<double>(plan.workload.micro_batch * plan.workload.sequence) /
                        static_cast<double>(mesh.tensor * mesh.context);
    worst.bound += kMostPadding * local / (tokens * static_cast<double>(routing.top_k));
  }
  return worst;
}

}  // namespace headroom::cost
