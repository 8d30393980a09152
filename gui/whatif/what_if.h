#pragma once

#include <set>
#include <string>

#include <QObject>
#include <QUndoStack>

#include "gui/whatif/scenario.h"
#include "gui/whatif/what_if_command.h"

namespace headroom::gui {

/// The scenario that is being edited, and its history. Every change, including a reset, is on the
/// undo stack.
class WhatIf : public QObject {
  Q_OBJECT

 public:
  explicit WhatIf(Scenario initial, QObject* parent = nullptr);

  [[nodiscard]] const Scenario& scenario() const { return scenario_; }
  [[nodiscard]] QUndoStack* undoStack() { return &undo_; }

  /// Settles `after` and makes it the scenario. Does nothing if nothing changes.
  void change(const Scenario& after, const Edit& edit);
  /// The axes of a search (`plan::Axis`, by option: "tp", "micro-batch") that it may choose; all
  /// others keep the value of the plan.
  [[nodiscard]] const std::set<std::string>& freeAxes() const { return free_axes_; }
  void setFreeAxes(std::set<std::string> axes);

  /// Returns to the scenario with which the window opened, as one undoable change.
  void reset();

 Q_SIGNALS:
  void changed(const headroom::gui::Scenario& scenario);
  void freeAxesChanged();

 private:
  void apply(const Scenario& scenario);

  Scenario initial_;
  Scenario scenario_;
  std::set<std::string> free_axes_;
  QUndoStack undo_;
};

/// The name of `field` in a sentence: "micro-batch".
[[nodiscard]] QString field_name(Field field);

}  // namespace headroom::gui
