#pragma once

#include <memory>

#include "gui/models/breakdown_model.h"
#include "gui/models/stage_memory.h"
#include "gui/pages/newest_job.h"
#include "gui/pages/page.h"

class QLabel;
class QSplitter;
class QTableView;

namespace headroom::gui {

class BreakdownView;

/// The peak of each phase by category, as bars and as a table. If the plan has pipeline stages, the
/// peak of each stage stands beside it in the same form.
class MemoryPage : public Page {
  Q_OBJECT

 public:
  explicit MemoryPage(QWidget* parent = nullptr);
  void setAnswer(const Answer& answer) override;
  [[nodiscard]] bool isBusy() const override { return stage_job_.isBusy(); }

  /// The rows of the stages; none without a pipeline.
  [[nodiscard]] const BreakdownModel& stages() const { return stages_.model; }

 private:
  /// Bars and table of one model, and what holds them.
  struct Breakdown {
    BreakdownModel model;
    BreakdownView* bars = nullptr;
    QTableView* table = nullptr;
    QLabel* table_title = nullptr;
    QWidget* bars_part = nullptr;
    QWidget* table_part = nullptr;
  };
  void build(Breakdown& breakdown, const QString& title, const QString& name);
  void showStages(const StageMemory* stages);
  /// Divides the room between chart and table, once, as the first answer needs it.
  void shareRoomOnce();

  Breakdown phases_;
  Breakdown stages_;
  NewestJob stage_job_;
  QSplitter* parts_ = nullptr;
  bool room_is_shared_ = false;
};

}  // namespace headroom::gui
