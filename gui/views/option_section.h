#pragma once

#include <vector>

#include <QStringList>
#include <QWidget>

#include "gui/models/option_rows.h"
#include "gui/views/option_control.h"

class QCheckBox;
class QVBoxLayout;

namespace headroom::gui {

class FlatToggle;

/// The options of one part of a plan: those at hand and those that differ from their defaults,
/// then, when they are asked for, all others. A filter shows what matches it, wherever it is.
class OptionSection : public QWidget {
  Q_OBJECT

 public:
  OptionSection(const OptionGroup& group, const Probe& probe, QWidget* parent = nullptr);

  [[nodiscard]] const OptionGroup& group() const { return group_; }
  [[nodiscard]] const std::vector<OptionControl*>& controls() const { return controls_; }

  /// Shows the values of `plan`.
  void showPlan(const ir::ParallelPlan& plan);
  /// Hides the whole section if the scenario has no use for its options.
  void setApplies(bool applies);
  /// Shows only what contains all words of `words`, which are in lower case; empty: the usual rows.
  void setFilter(const QStringList& words);
  /// Whether the filter leaves something to show.
  [[nodiscard]] bool hasMatches() const;

 Q_SIGNALS:
  void edited(const headroom::gui::OptionRow& row, const headroom::ir::JsonValue& value,
              qint64 gesture);
  void freeToggled(const QString& axis, bool free);
  /// The check box of a part that a plan may lack was switched.
  void partToggled(const headroom::ir::PlanPart* part, bool present);

 private:
  void addHeader(QVBoxLayout* column);
  void arrange();
  [[nodiscard]] bool matches(const OptionRow& row) const;
  [[nodiscard]] bool isShown(const OptionControl* control) const;

  OptionGroup group_;
  ir::ParallelPlan plan_;
  bool present_ = true;  ///< The plan has the part.
  bool applies_ = true;  ///< The scenario has a use for the options.
  QStringList filter_;
  FlatToggle* header_ = nullptr;
  QCheckBox* part_ = nullptr;
  FlatToggle* more_ = nullptr;
  std::vector<OptionControl*> controls_;
};

}  // namespace headroom::gui
