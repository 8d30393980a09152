#pragma once

#include <QPointF>

#include "gui/charts/timeline_data.h"
#include "gui/models/compare_model.h"
#include "gui/models/tensor_model.h"
#include "gui/pages/newest_job.h"
#include "gui/pages/page.h"

class QLabel;
class QTabWidget;

namespace headroom::gui {

class AddressMap;
class TensorTable;
class TimelineChart;
class TreemapChart;

/// The memory of one step from event to event, and what is alive at the chosen moment: as a table,
/// as areas, and as the allocator's segments.
class TimelinePage : public Page {
  Q_OBJECT

 public:
  explicit TimelinePage(QWidget* parent = nullptr);
  void setAnswer(const Answer& answer) override;
  [[nodiscard]] bool isBusy() const override {
    return replay_.isBusy() || map_job_.isBusy() || pinned_job_.isBusy();
  }
  /// Lays the timeline of what is pinned over that of the answer; nothing: removes it.
  void setPinned(const std::optional<Pinned>& pinned);

  /// Lays the phases of a measured report over the timeline. Returns the reason if that failed,
  /// else an empty string.
  [[nodiscard]] QString openMeasured(const QString& path);
  [[nodiscard]] TimelineChart* chart() const { return chart_; }
  [[nodiscard]] TensorModel* tensors() { return &tensors_; }

 private:
  [[nodiscard]] QWidget* makeToolBar();
  [[nodiscard]] QWidget* makeMoment();
  void showTimeline(std::shared_ptr<const TimelineData> timeline);
  void showMoment();
  void showAddressMap();
  void point(const QPointF& place);
  [[nodiscard]] QString momentText(std::size_t event) const;
  void choose(quint32 block);
  void chooseMeasured();
  void settleIfDone();

  TensorModel tensors_;
  TimelineChart* chart_ = nullptr;
  QLabel* readout_ = nullptr;
  QLabel* moment_title_ = nullptr;
  QTabWidget* views_ = nullptr;
  TensorTable* table_ = nullptr;
  TreemapChart* treemap_ = nullptr;
  AddressMap* map_ = nullptr;
  QLabel* map_text_ = nullptr;
  QWidget* map_part_ = nullptr;
  NewestJob replay_;
  NewestJob map_job_;
  NewestJob pinned_job_;
};

}  // namespace headroom::gui
