#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "model_ir/plan/parallel_plan.h"

namespace headroom::ir {

/// A value that a `PlanControl` offers.
struct PlanControlValue {
  std::int64_t value = 0;
  std::string_view label;   ///< "2: and gradients".
  std::string_view detail;  ///< What it means for memory.
};

/// A choice of one framework for which the window has a control, beside those of every framework.
/// Frameworks with the same choice share the control and its label.
struct PlanControl {
  std::string_view label;                   ///< "Tensor parallel".
  std::vector<PlanControlValue> choices{};  ///< Empty: any whole number from 1, such as a degree.
  std::function<std::int64_t(const ParallelPlan&)> get;
  std::function<void(ParallelPlan&, std::int64_t)> set;
};

inline constexpr std::string_view kTensorParallelLabel = "Tensor parallel";
inline constexpr std::string_view kPipelineStagesLabel = "Pipeline stages";
inline constexpr std::string_view kContextParallelLabel = "Context parallel";
inline constexpr std::string_view kExpertParallelLabel = "Expert parallel";
inline constexpr std::string_view kReplicasLabel = "Replicas";

/// A control for a degree of the mesh, in plans of the framework whose own options are of type
/// `Part`. Other plans show 1.
template <typename Part>
[[nodiscard]] PlanControl degree_control(std::string_view label, std::int64_t Mesh::*degree) {
  return {.label = label,
          .get =
              [degree](const ParallelPlan& plan) {
                return plan.own.has<Part>() ? plan.mesh.*degree : std::int64_t{1};
              },
          .set =
              [degree](ParallelPlan& plan, std::int64_t value) {
                if (plan.own.has<Part>()) {
                  plan.mesh.*degree = value;
                }
              }};
}

}  // namespace headroom::ir
