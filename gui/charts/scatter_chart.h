#pragma once

#include <optional>
#include <vector>

#include <QPointF>

#include "gui/charts/chart.h"
#include "gui/charts/legend.h"
#include "gui/models/plan_table_model.h"

namespace headroom::gui {

/// The plans of a `PlanTableModel`: tokens per second over peak memory, with the framework as
/// colour and shape, and a line through those that no other plan beats. A click or the arrow keys
/// choose a plan, a double click or Enter loads it.
class ScatterChart : public Chart {
  Q_OBJECT

 public:
  /// The model must outlive the chart.
  explicit ScatterChart(const PlanTableModel* model, QWidget* parent = nullptr);

  /// The scenario on screen, as a hollow mark.
  struct Present {
    Bytes peak;
    double tokens_per_second = 0;
  };
  void setPresent(std::optional<Present> present);
  void setChosen(std::optional<int> row);
  [[nodiscard]] std::optional<int> rowAt(const QPointF& place) const;
  [[nodiscard]] QPointF placeOf(int row) const;
  [[nodiscard]] QSize minimumSizeHint() const override;

 Q_SIGNALS:
  void chosen(int row);
  void loadRequested(int row);
  /// Emitted when the mouse is over another plan; -1: over none.
  void hovered(int row);

 protected:
  void draw(QPainter& painter) override;
  void layOut() override;
  bool event(QEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  [[nodiscard]] QPointF at(Bytes peak, double tokens) const;
  void drawAxes(QPainter& painter) const;
  void drawFront(QPainter& painter) const;
  void drawMark(QPainter& painter, const QPointF& place, std::size_t runtime, qreal size) const;

  const PlanTableModel* model_;
  std::optional<Present> present_;
  std::optional<int> chosen_;
  int hovered_ = -1;
  std::vector<LegendEntry> legend_;
  QRectF legend_area_;
  QRectF plot_;
  double most_bytes_ = 1;
  double most_tokens_ = 1;
};

}  // namespace headroom::gui
