#pragma once

#include <string>
#include <vector>

#include <QString>

#include "model_ir/plan/parallel_plan.h"

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
[[nodiscard]] std::vector<Choice<int>> zero_stage_choices();
/// Those of `runtime`.
[[nodiscard]] std::vector<Choice<ir::Precision>> precision_choices(const std::string& runtime);
[[nodiscard]] std::vector<Choice<ir::OptimizerPlan>> optimizer_choices();
[[nodiscard]] std::vector<Choice<ir::AttentionKind>> attention_choices();
[[nodiscard]] std::vector<Choice<ir::Recompute>> checkpointing_choices();
/// Bits of the frozen weights under LoRA; 0: as the precision recipe says.
[[nodiscard]] std::vector<Choice<int>> quantization_choices();

}  // namespace headroom::gui
