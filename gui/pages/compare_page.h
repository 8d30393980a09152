#pragma once

#include <optional>

#include <QAction>

#include "gui/models/compare_model.h"
#include "gui/pages/page.h"

class QLabel;
class QPushButton;
class QTableView;

namespace headroom::gui {

/// The present answer beside one that was pinned: figures, then the options that differ.
class ComparePage : public Page {
  Q_OBJECT

 public:
  explicit ComparePage(QWidget* parent = nullptr);

  void setAnswer(const Answer& answer) override;
  void setPinned(const std::optional<Pinned>& pinned);
  /// The button that pins or releases, whose action is the window's.
  void setPinAction(QAction* action);

 Q_SIGNALS:
  /// Emitted when the user wants the pinned scenario back.
  void restoreRequested();

 private:
  void refresh();

  CompareModel model_;
  std::optional<Pinned> pinned_;
  std::optional<Pinned> now_;
  QLabel* what_ = nullptr;
  QPushButton* pin_ = nullptr;
  QPushButton* restore_ = nullptr;
  QTableView* table_ = nullptr;
};

}  // namespace headroom::gui
