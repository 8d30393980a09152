#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <QString>

#include "model_ir/plan/parallel_plan.h"
#include "runtimes/interface/plan_control.h"

namespace headroom::gui {

/// One value of a field of the plan. If command line and plan files have a word for it, the label
/// is that word, so that users can type what they read.
template <typename T>
struct Choice {
  T value;
  QString label;
  QString detail;  ///< Its effect on memory, for the tooltip.
};

[[nodiscard]] std::vector<Choice<std::string>> runtime_choices();
/// The values of a control that is not a number.
[[nodiscard]] std::vector<Choice<std::int64_t>> control_choices(const ir::PlanControl& control);
/// The plan's framework's control with that label; nothing if it has none.
[[nodiscard]] std::optional<ir::PlanControl> control_of(const ir::ParallelPlan& plan,
                                                        std::string_view label);
/// The controls of all frameworks in display order. Each label occurs once.
[[nodiscard]] std::vector<ir::PlanControl> all_controls();
/// The precisions that the framework `runtime` supports.
[[nodiscard]] std::vector<Choice<ir::Precision>> precision_choices(const std::string& runtime);
[[nodiscard]] std::vector<Choice<ir::OptimizerPlan>> optimizer_choices();
[[nodiscard]] std::vector<Choice<ir::AttentionKind>> attention_choices();
[[nodiscard]] std::vector<Choice<ir::Recompute>> checkpointing_choices();
/// Bits of the frozen weights under LoRA; 0: according to the precision.
[[nodiscard]] std::vector<Choice<int>> quantization_choices();

}  // namespace headroom::gui
