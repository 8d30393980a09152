#pragma once

#include <optional>
#include <vector>

#include <QPointF>

#include "gui/charts/chart.h"
#include "gui/models/operator_model.h"

namespace headroom::gui {

/// Products and attention of a step on the device's roofline: FLOPs per second over FLOPs per byte,
/// both logarithmic. The area of a dot is its share of the step's time. A click or the arrow keys
/// choose one.
class RooflineChart : public Chart {
  Q_OBJECT

 public:
  /// The model must outlive the chart.
  explicit RooflineChart(const OperatorModel* model, QWidget* parent = nullptr);

  /// Frames the operator in a row of the model.
  void setChosen(std::optional<int> row);
  /// The row at a place; nothing beside the dots.
  [[nodiscard]] std::optional<int> rowAt(const QPointF& place) const;
  /// The place of a row's dot; nothing for operators without FLOPs.
  [[nodiscard]] std::optional<QPointF> placeOf(int row) const;
  [[nodiscard]] QSize minimumSizeHint() const override;

 Q_SIGNALS:
  void chosen(int row);

 protected:
  void draw(QPainter& painter) override;
  void layOut() override;
  bool event(QEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  struct Dot {
    int row = 0;
    QPointF place;
    qreal radius = 1;
  };
  [[nodiscard]] QPointF at(double intensity, double rate) const;
  void drawRoofs(QPainter& painter) const;

  const OperatorModel* model_;
  std::vector<Dot> dots_;  ///< Largest first.
  QRectF plot_;
  double least_intensity_ = 1;  ///< Logarithms, base 10.
  double most_intensity_ = 4;
  double least_rate_ = 9;
  double most_rate_ = 15;
  std::optional<int> chosen_;
};

}  // namespace headroom::gui
