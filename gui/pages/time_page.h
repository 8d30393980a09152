#pragma once

#include <QSortFilterProxyModel>

#include "gui/charts/time_data.h"
#include "gui/models/operator_model.h"
#include "gui/pages/newest_job.h"
#include "gui/pages/page.h"

class QLabel;
class QSplitter;
class QTableView;

namespace headroom::gui {

class RooflineChart;

/// The last step in time: the stages of the pipeline, the streams of the rank with what they wait
/// for, and the operators on the device's roofline.
class TimePage : public Page {
  Q_OBJECT

 public:
  explicit TimePage(std::string config_dir, QWidget* parent = nullptr);
  void setAnswer(const Answer& answer) override;
  [[nodiscard]] bool isBusy() const override { return job_.isBusy(); }

  [[nodiscard]] GanttChart* streams() const { return streams_; }
  [[nodiscard]] GanttChart* stages() const { return stages_; }

 protected:
  void changeEvent(QEvent* event) override;

 private:
  [[nodiscard]] QWidget* makeOperators();
  void showData(std::shared_ptr<const TimeData> timed, const QString& reason);
  void showCharts();
  /// Divides the room among the parts as their contents need it.
  void shareRoom();

  std::string config_dir_;
  std::shared_ptr<const TimeData> data_;
  QString reason_;
  OperatorModel operators_;
  QSortFilterProxyModel rows_;
  QLabel* summary_ = nullptr;
  QSplitter* parts_ = nullptr;
  QWidget* stages_part_ = nullptr;
  GanttChart* stages_ = nullptr;
  QLabel* streams_title_ = nullptr;
  GanttChart* streams_ = nullptr;
  QTableView* table_ = nullptr;
  RooflineChart* roofline_ = nullptr;
  NewestJob job_;
};

}  // namespace headroom::gui
