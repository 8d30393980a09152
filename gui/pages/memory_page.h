#pragma once

#include "gui/models/breakdown_model.h"
#include "gui/pages/page.h"

class QLabel;
class QSplitter;
class QTableView;

namespace headroom::gui {

class BreakdownView;

/// The peak of each phase by category, as bars and as a table.
class MemoryPage : public Page {
  Q_OBJECT

 public:
  explicit MemoryPage(QWidget* parent = nullptr);
  void setAnswer(const Answer& answer) override;

 private:
  [[nodiscard]] QTableView* makeTable();
  /// Divides the room between chart and table, once, as the first answer needs it.
  void shareRoomOnce();

  BreakdownModel breakdown_;
  QSplitter* parts_ = nullptr;
  bool room_is_shared_ = false;
  QTableView* table_ = nullptr;
  QLabel* table_title_ = nullptr;
  BreakdownView* bars_ = nullptr;
};

}  // namespace headroom::gui
