#pragma once

#include <optional>

#include <QAction>

#include "gui/charts/timeline_data.h"
#include "gui/models/compare_model.h"
#include "gui/pages/newest_job.h"
#include "gui/pages/page.h"

class QLabel;
class QPushButton;
class QSplitter;
class QTableView;

namespace headroom::gui {

class TimelineChart;

/// The present answer beside one that was pinned: the pinned timeline over the present one,
/// figures, then the options that differ.
class ComparePage : public Page {
  Q_OBJECT

 public:
  explicit ComparePage(QWidget* parent = nullptr);

  void setAnswer(const Answer& answer) override;
  [[nodiscard]] bool isBusy() const override { return job_.isBusy(); }
  [[nodiscard]] TimelineChart* chart() const { return chart_; }
  void setPinned(const std::optional<Pinned>& pinned);
  /// The button that pins or releases, whose action is the window's.
  void setPinAction(QAction* action);

 Q_SIGNALS:
  /// Emitted when the user wants the pinned scenario back.
  void restoreRequested();

 private:
  void refresh();
  void replay();

  CompareModel model_;
  std::optional<Pinned> pinned_;
  std::optional<Pinned> now_;
  std::shared_ptr<const TimelineData> pinned_timeline_;  ///< Null until it has been replayed.
  NewestJob job_;
  QLabel* what_ = nullptr;
  QPushButton* pin_ = nullptr;
  QPushButton* restore_ = nullptr;
  QTableView* table_ = nullptr;
  TimelineChart* chart_ = nullptr;
  QSplitter* parts_ = nullptr;
};

}  // namespace headroom::gui
