#pragma once

#include <cstdint>

#include "model_ir/base/result.h"

namespace headroom::cost {

/// How tokens are distributed over the experts of a layer. Each rank has the same number of
/// experts.
struct Routing {
  std::int64_t experts = 1;  ///< E
  std::int64_t ranks = 1;    ///< Expert-parallel ranks; divides E.
  std::int64_t top_k = 1;    ///< Experts that each token goes to.
  double imbalance = 0;      ///< Standard deviation of the tokens per expert over their mean.
};

/// Tokens that the busiest rank receives, as a multiple of an even share.
struct ExpertLoad {
  double expected = 1;  ///< On average.
  double p95 = 1;       ///< Not exceeded in 19 of 20 steps.
};

/// The load of the busiest rank.
///
/// Model:   expert shares follow a symmetric Dirichlet distribution with the imbalance as its
///          coefficient of variation; a rank's share is then a Beta variable, and the maximum is
///          taken over independent ranks. A rank receives each token at most min(top_k, its
///          experts) times.
/// Source:  N. Johnson, S. Kotz, Continuous Multivariate Distributions, 1972, section 40.5.
/// Errors:  kInvalidArgument for an imbalance below 0, or of sqrt(E - 1) and more, where one expert
///          would take all tokens.
[[nodiscard]] Result<ExpertLoad> busiest_rank(const Routing& routing);

}  // namespace headroom::cost
