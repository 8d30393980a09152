#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/dtype.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir {

/// The parts of a layer that run again in backward, and where the rest waits for it.
struct RecomputedParts {
  bool layer = false;      ///< The whole layer; only its input is kept.
  bool attention = false;  ///< Attention between the projections (Korthikanti et al. 2022,
                           ///< arXiv:2205.05198, section 5).
  bool mlp = false;        ///< The MLP or the experts.
  bool on_host = false;    ///< The tensors that this layer keeps are on the host until backward.
  friend bool operator==(const RecomputedParts&, const RecomputedParts&) = default;
};

/// A plan's choices in words that belong to no framework, for a program that runs the plan itself
/// (validators/executor). What frameworks do alike is in `ParallelPlan`.
struct PlanExecution {
  /// The ZeRO stage over the ranks that are neither tensor- nor pipeline-parallel (Rajbhandari et
  /// al. 2020, arXiv:1910.02054, section 5); 0: nothing is sharded.
  int zero_stage = 0;
  bool parameters_on_host = false;
  bool states_on_host = false;
  bool activations_on_host = false;
  bool sequence_parallel = false;
  std::vector<RecomputedParts> layers{};  ///< One for each layer of the model.
  /// Products of linear layers take operands in 8 bits, each tensor with one scale that is computed
  /// anew (current scaling).
  bool fp8_products = false;
  std::optional<DType> compute_dtype{};   ///< Type of activations; none: the precision's type.
  std::optional<DType> gradient_dtype{};  ///< Type of gradients; none: the parameters' type.
  std::optional<DType> state_dtype{};     ///< Type of moments; none: the precision's type.
  /// Wishes of the plan that this form cannot express: "interleaved pipeline stages".
  std::vector<std::string> beyond{};
  friend bool operator==(const PlanExecution&, const PlanExecution&) = default;
};

/// The execution of a plan with no choices but the common ones: data parallelism without sharding,
/// and the layers that `recomputes_layer` names.
[[nodiscard]] PlanExecution common_execution(const ModelSpec& model, const ParallelPlan& plan);

/// Adds `what` to `PlanExecution::beyond` if the plan asks for it.
void beyond_if(PlanExecution& execution, bool asked, const char* what);

}  // namespace headroom::ir
