#pragma once

#include <cstdint>
#include <optional>

#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

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
/// `ExpertLoad::p95` alone, which takes no integral.
///
/// Errors:  as `busiest_rank`.
[[nodiscard]] Result<double> busy_load(const Routing& routing);

/// The imbalance that is assumed unless one is given.
///
/// Source:  L. Wang et al. 2024, arXiv:2408.15664, tables 2 and 6: with an auxiliary loss, the
///          busiest of 64 experts gets 1.52, 1.72 and 1.94 times an even share over a validation
///          set (models of 3B and 1B parameters; 1B with a softmax gate). Under the distribution
///          of `busiest_rank`, these are imbalances of 0.19, 0.26 and 0.33. The greatest is taken,
///          because single batches are less even than a whole set.
inline constexpr double kPublishedImbalance = 0.33;

/// The routing of tokens to the experts of a plan; nothing if no load of its framework's lowering
/// depends on it: without experts, without experts on several ranks, and with a capacity to which
/// experts are padded. Nothing, too, if the plan states a load of its own.
[[nodiscard]] std::optional<Routing> routing_of(const ir::ModelSpec& model,
                                                const ir::ParallelPlan& plan, double imbalance);

/// The load of the busiest rank of `plan` that 19 of 20 steps do not exceed; 1 without
/// `routing_of`, and if no routing has this imbalance.
[[nodiscard]] double busy_load_of(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                  double imbalance);
/// `plan` with this load of the experts of the rank shown.
[[nodiscard]] ir::ParallelPlan with_load(const ir::ParallelPlan& plan, double load);

/// The greatest load of all routings.
struct WorstLoad {
  double reached = 1;  ///< All tokens of a group go to as many experts of one rank as they can.
  double bound = 1;    ///< No routing puts more rows on a rank, with those that pad its experts.
};

/// The worst routing of `plan`; nothing if the lowering of its framework does not follow loads.
///
/// Model:   each token of the ranks that share a layer's experts goes to top_k of them, so that at
///          most min(top_k, experts of a rank) copies of it reach one rank. In 8 bits, the rows of
///          each expert are padded to a multiple of 32 at most.
[[nodiscard]] std::optional<WorstLoad> worst_load_of(const ir::ModelSpec& model,
                                                     const ir::ParallelPlan& plan);

}  // namespace headroom::cost
