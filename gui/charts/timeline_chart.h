#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <QImage>
#include <QPointF>

#include "gui/charts/legend.h"
#include "gui/charts/measured_phases.h"
#include "gui/charts/span_chart.h"
#include "gui/charts/timeline_data.h"
#include "gui/models/words.h"

namespace headroom::gui {

/// The memory of a rank from event to event: live tensors by category, what is reserved, and the
/// capacity. A strip above it shows the whole run, two rows below name steps and phases. One moment
/// is chosen: by a click, by the arrow keys (with Shift by a twentieth of what is visible), by P
/// for the peak, by Home and End. F switches between the scale of the capacity and of the contents.
class TimelineChart : public SpanChart {
  Q_OBJECT

 public:
  explicit TimelineChart(QWidget* parent = nullptr);

  /// Shows `shown`, or nothing if it is null. The visible part and the moment stay if the program
  /// has the same phases, in proportion; else the step with the peak is visible and the peak
  /// chosen.
  void setData(std::shared_ptr<const TimelineData> shown);
  [[nodiscard]] const std::shared_ptr<const TimelineData>& data() const { return data_; }

  /// The chosen event; nothing without data.
  [[nodiscard]] std::optional<std::size_t> moment() const { return moment_; }
  void setMoment(std::size_t event);
  void choosePeak();
  void showPeakStep();
  [[nodiscard]] bool fitsContents() const { return fits_contents_; }
  void setFitsContents(bool fits);
  /// Lays the measured peaks of phases over the timeline; none: removes them.
  void setMeasured(std::vector<MeasuredPeak> measured);

  /// Lays the allocated bytes of another run over the timeline, each phase over the phase of the
  /// same name; null: removes them.
  void setPinned(std::shared_ptr<const TimelineData> pinned);
  /// The allocated bytes of the pinned run at the place of `event`; nothing without such a phase.
  [[nodiscard]] std::optional<Bytes> pinnedAt(std::size_t event) const;

  /// The event at a place of the widget; nothing outside the plot.
  [[nodiscard]] std::optional<std::size_t> eventAt(const QPointF& place) const;
  /// The place of an event's allocated bytes.
  [[nodiscard]] QPointF placeOf(std::size_t event) const;

  [[nodiscard]] QSize sizeHint() const override;
  [[nodiscard]] QSize minimumSizeHint() const override;

 Q_SIGNALS:
  void momentChanged();
  void fitsContentsChanged(bool fits);

 protected:
  void draw(QPainter& painter) override;
  void layOut() override;
  [[nodiscard]] QRectF plot() const override { return plot_; }
  [[nodiscard]] double focusPoint() const override;
  void clicked(const QPointF& place) override;
  void keyPressEvent(QKeyEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;

 private:
  struct Column {
    qreal x = 0;
    MemoryHistory::Extremes extremes;
    cost::RoleBytes roles{};
  };
  [[nodiscard]] std::vector<Column> columns(const ZoomSpan& span, const QRectF& area) const;
  [[nodiscard]] qreal yOf(Bytes bytes) const;
  void findRoles();
  void findScale();
  void makeTiles(qreal ratio);
  /// Until the user chooses a scale: that of the contents if the capacity would dwarf them.
  void chooseScale();
  void moveBy(double events);

  void drawOverview(QPainter& painter);
  void drawAxis(QPainter& painter) const;
  void drawAreas(QPainter& painter, const std::vector<Column>& columns);
  void drawReserved(QPainter& painter, const std::vector<Column>& columns) const;
  void drawCapacity(QPainter& painter) const;
  void drawPhases(QPainter& painter) const;
  void drawMeasured(QPainter& painter) const;
  void drawPinned(QPainter& painter) const;
  void drawPeak(QPainter& painter) const;
  void drawMoment(QPainter& painter) const;
  void drawPointer(QPainter& painter) const;

  std::shared_ptr<const TimelineData> data_;
  std::optional<std::size_t> moment_;
  std::vector<MeasuredPeak> measured_;
  std::shared_ptr<const TimelineData> pinned_;
  std::optional<qreal> pointer_;  ///< x of the mouse in the plot.
  bool fits_contents_ = false;
  bool scale_is_chosen_ = false;

  std::vector<ir::TensorRole> roles_;  ///< The roles that occur.
  std::vector<LegendEntry> legend_;
  std::vector<QImage>
      tiles_;  ///< The tiles of `roles_`, for `tile_ratio_` pixels per logical pixel.
  qreal tile_ratio_ = 0;
  QImage overview_picture_;
  QRectF legend_area_;
  QRectF overview_;
  QRectF plot_;
  QRectF steps_;
  QRectF phases_;
  double top_ = 1;  ///< Bytes at the upper end of the plot.
  ByteScale scale_;
};

}  // namespace headroom::gui
