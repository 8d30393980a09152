#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <QBrush>
#include <QPointF>

#include "gui/charts/legend.h"
#include "gui/charts/span_chart.h"

namespace headroom::gui {

/// A bar of a Gantt chart. Times are in seconds from the chart's begin.
struct GanttBar {
  double begin = 0;
  double end = 0;
  std::uint16_t series = 0;
  std::uint32_t id = 0;  ///< A number by which the owner of the data finds the bar again.
};
struct GanttRow {
  QString name;
  std::vector<GanttBar> bars;  ///< By begin, without overlaps.
};
/// The colours and pattern of one kind of bar.
struct GanttSeries {
  QString name;  ///< Empty: the legend leaves it out.
  SeriesStyle style;
  bool waiting = false;  ///< Nothing runs: an outline with a tint.
};
struct GanttData {
  std::vector<GanttRow> rows;
  std::vector<GanttSeries> series;
  double length = 0;  ///< Seconds.
  /// One line about a bar, and its short name.
  std::function<QString(const GanttRow&, const GanttBar&)> sentence;
  std::function<QString(const GanttBar&)> label;
};

/// Rows of bars over time. A click or the arrow keys choose a bar. Bars too short for a pixel are
/// summed: a pixel has the colour of what takes most of its time.
class GanttChart : public SpanChart {
  Q_OBJECT

 public:
  explicit GanttChart(QWidget* parent = nullptr);

  /// Shows `shown`, or `reason` if it is null. The visible part stays if the length is about the
  /// same.
  void setData(std::shared_ptr<const GanttData> shown, const QString& reason = {});
  [[nodiscard]] const std::shared_ptr<const GanttData>& data() const { return data_; }

  struct Place {
    std::size_t row = 0;
    std::size_t bar = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };
  [[nodiscard]] std::optional<Place> placeAt(const QPointF& point) const;
  [[nodiscard]] std::optional<Place> chosen() const { return chosen_; }
  void choose(const Place& place);
  [[nodiscard]] QString textOf(const Place& place) const;

  [[nodiscard]] QSize sizeHint() const override;
  [[nodiscard]] QSize minimumSizeHint() const override;

 Q_SIGNALS:
  void chosenChanged();

 protected:
  void draw(QPainter& painter) override;
  void layOut() override;
  [[nodiscard]] QRectF plot() const override { return plot_; }
  void clicked(const QPointF& place) override;
  void keyPressEvent(QKeyEvent* event) override;
  bool event(QEvent* event) override;

 private:
  [[nodiscard]] QRectF rowArea(std::size_t row) const;
  void drawAxis(QPainter& painter) const;
  void drawRow(QPainter& painter, std::size_t row) const;
  void drawBar(QPainter& painter, const QRectF& area, const GanttBar& bar) const;
  void moveAlong(int step);
  void moveAcross(int step);

  std::shared_ptr<const GanttData> data_;
  QString reason_;
  std::optional<Place> chosen_;
  std::vector<QBrush> brushes_;  ///< By series.
  std::vector<LegendEntry> legend_;
  QRectF legend_area_;
  QRectF plot_;
  qreal row_height_ = 1;
};

}  // namespace headroom::gui
