#pragma once

#include <string>
#include <vector>

#include <QString>

#include "model_ir/plan/parallel_plan.h"
#include "runtimes/interface/runtime.h"

namespace headroom::gui {

/// One option of a plan as the window shows it. Everything comes from the option's row in the table
/// of its part.
struct OptionRow {
  const ir::PlanPart* part = nullptr;
  const ir::OptionField* field = nullptr;
  std::string id;    ///< "fsdp.replicas": unique among the rows of a framework.
  std::string axis;  ///< The axis of `headroom plan` that depends on it; empty: none does.
  QString label;     ///< "Replicas"
  QString help;      ///< Its effect, its default, and the text to type for it.
  QString words;     ///< The text that a filter searches, in lower case.
};

/// The options of one part of a plan.
struct OptionGroup {
  const ir::PlanPart* part = nullptr;
  std::string id;        ///< The part's key in a plan file.
  QString title;         ///< "PyTorch FSDP"
  QString switch_label;  ///< The words of the check box of a part that a plan may lack.
  bool of_framework = false;
  std::vector<OptionRow> rows;
};

/// The groups of a framework: its own parts, then those that every framework understands. Options
/// that the window shows elsewhere (framework, number of GPUs) are left out.
[[nodiscard]] std::vector<OptionGroup> option_groups(const ir::Runtime& runtime);

/// "Reshard after forward" for "reshard_after_forward". Abbreviations get capitals.
[[nodiscard]] QString words_of_name(std::string_view name);

/// A value as the window shows it: "8,192 tokens", "yes", "25 MiB"; the table's words as they are.
[[nodiscard]] QString shown_value(const ir::OptionField& field, const ir::ParallelPlan& plan);

/// The differences between two plans: label, value before, value after. Options of frameworks that
/// only one of the plans has are compared with their defaults.
struct OptionChange {
  QString label;
  QString before;
  QString after;
  friend bool operator==(const OptionChange&, const OptionChange&) = default;
};
[[nodiscard]] std::vector<OptionChange> changes_between(const ir::ParallelPlan& before,
                                                        const ir::ParallelPlan& after);

}  // namespace headroom::gui
