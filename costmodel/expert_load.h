#pragma once

#include <cstdint>

#include "model_ir/base/result.h"

namespace headroom::cost {

/// How tokens spread over the experts of a layer, whose ranks share them evenly.
struct Routing {
  std::int64_t experts = 1;  ///< E
  std::int64_t ranks = 1;    ///< Of expert parallelism; divides E.
  std::int64_t top_k = 1;    ///< Experts that each token goes to.
  double imbalance = 0;      ///< Standard deviation of an expert's tokens over their mean.
};

/// What the busiest rank receives, as a multiple of an even share.
struct ExpertLoad {
  double expected = 1;  ///< On average.
  double p95 = 1;       ///< Not exceeded in 19 of 20 steps.
};

/// The load of the busiest rank.
///
/// Model:   expert shares follow a symmetric Dirichlet distribution with the imbalance as its
///          coefficient of variation; a rank's share is then a Beta variable, and the ranks'
///          maximum is taken as that of independent ones. No rank receives more than every token
///          sent to it as often as it has experts for.
/// Source:  N. Johnson, S. Kotz, Continuous Multivariate Distributions, 1972, section 40.5.
/// Errors:  kInvalidArgument for an imbalance below 0 or from sqrt(E - 1) on, which is one expert
///          taking all.
[[nodiscard]] Result<ExpertLoad> busiest_rank(const Routing& routing);

}  // namespace headroom::cost
