#pragma once

#include <string_view>

#include <QObject>
#include <QUndoStack>

#include "gui/whatif/scenario.h"
#include "gui/whatif/what_if_command.h"

namespace headroom::gui {

/// The scenario being edited and its history. Every change, also a reset, goes through the undo
/// stack.
class WhatIf : public QObject {
  Q_OBJECT

 public:
  explicit WhatIf(Scenario initial, QObject* parent = nullptr);

  [[nodiscard]] const Scenario& scenario() const { return scenario_; }
  [[nodiscard]] QUndoStack* undoStack() { return &undo_; }

  /// Makes `after`, once settled, the scenario. Does nothing if nothing changes.
  void change(const Scenario& after, const Edit& edit);
  /// Back to the scenario that the window opened with, as one undoable change.
  void reset();

 Q_SIGNALS:
  void changed(const headroom::gui::Scenario& scenario);

 private:
  void apply(const Scenario& scenario);

  Scenario initial_;
  Scenario scenario_;
  QUndoStack undo_;
};

/// "micro-batch": what `field` is called in a sentence.
[[nodiscard]] QString field_name(Field field);

/// A label or detail of an `ir::PlanControl`, in the language of the window.
[[nodiscard]] QString control_text(std::string_view text);

}  // namespace headroom::gui
