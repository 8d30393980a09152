#include "costmodel/expert_load.h"

#include <algorithm>
#include <boost/math/distributions/beta.hpp>
#include <cmath>
#include <string>

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

}  // namespace

Result<ExpertLoad> busiest_rank(const Routing& routing) {
  const auto experts = static_cast<double>(routing.experts);
  const auto ranks = static_cast<double>(routing.ranks);
  const double most = std::sqrt(std::max(experts - 1, 0.0));
  if (!(routing.imbalance >= 0) || (routing.imbalance > 0 && routing.imbalance >= most)) {
    return Error::invalid_argument(
        "routing-imbalance", std::to_string(routing.imbalance),
        "at least 0 and below " + std::to_string(most) + ", where one expert takes every token",
        "0.1 is well balanced, 1 is poor");
  }
  if (routing.ranks == 1 || routing.imbalance == 0) {
    return ExpertLoad{};
  }
  // Var(p) / mean(p)^2 = (E - 1) / (E alpha + 1).
  const double alpha = ((experts - 1) / (routing.imbalance * routing.imbalance) - 1) / experts;
  const double local = experts / ranks;
  const Beta share(alpha * local, alpha * (experts - local));
  const auto top_k = static_cast<double>(routing.top_k);
  const double bound = ranks * std::min(top_k, local) / top_k;
  constexpr double kLevel = 0.95;
  const double p95 = ranks * boost::math::quantile(share, std::pow(kLevel, 1 / ranks));
  return ExpertLoad{.expected = std::clamp(ranks * mean_of_maximum(share, ranks), 1.0, bound),
                    .p95 = std::clamp(p95, 1.0, bound)};
}

}  // namespace headroom::cost
