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

/// One value of a plan's field. The label is the word that command line and plan files use, where
/// they have one, so that what is read here can be typed there.
template <typename T>
struct Choice {
  T value;
  QString label;
  QString detail;  ///< What it means for memory: the tooltip.
};

[[nodiscard]] std::vector<Choice<std::string>> runtime_choices();
/// The values of a control that is no number.
[[nodiscard]] std::vector<Choice<std::int64_t>> control_choices(const ir::PlanControl& control);
/// The control of that label that the plan's framework has; nothing if it has none.
[[nodiscard]] std::optional<ir::PlanControl> control_of(const ir::ParallelPlan& plan,
                                                        std::string_view label);
/// The controls of all frameworks, one of each label, in the order in which they are shown.
[[nodiscard]] std::vector<ir::PlanControl> all_controls();
/// Those that `runtime` runs, the name of a framework.
[[nodiscard]] std::vector<Choice<ir::Precision>> precision_choices(const std::string& runtime);
[[nodiscard]] std::vector<Choice<ir::OptimizerPlan>> optimizer_choices();
[[nodiscard]] std::vector<Choice<ir::AttentionKind>> attention_choices();
[[nodiscard]] std::vector<Choice<ir::Recompute>> checkpointing_choices();
/// Bits of the frozen weights under LoRA; 0: as the precision recipe says.
[[nodiscard]] std::vector<Choice<int>> quantization_choices();

}  // namespace headroom::gui
