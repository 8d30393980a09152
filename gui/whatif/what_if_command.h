#pragma once

#include <functional>
#include <string>

#include <QString>
#include <QUndoCommand>

#include "gui/whatif/scenario.h"

namespace headroom::gui {

/// An edit: its field and its gesture. Edits of one field that belong to one gesture (dragging a
/// slider) are one step of the undo stack.
struct Edit {
  Field field = Field::kEverything;
  std::int64_t gesture = 0;  ///< 0: the edit is a gesture of its own.
  std::string control{};     ///< `OptionRow::id`, for `Field::kOption`.
  QString text{};            ///< Names the edit in the menu; empty: the field's name.
  friend bool operator==(const Edit&, const Edit&) = default;
};

/// One step of the undo stack: the scenario before and after.
class WhatIfCommand : public QUndoCommand {
 public:
  using Apply = std::function<void(const Scenario&)>;

  WhatIfCommand(Scenario before, Scenario after, const Edit& edit, Apply apply);

  void undo() override;
  void redo() override;
  [[nodiscard]] int id() const override;
  bool mergeWith(const QUndoCommand* other) override;

 private:
  Scenario before_;
  Scenario after_;
  Edit edit_;
  Apply apply_;
};

}  // namespace headroom::gui
