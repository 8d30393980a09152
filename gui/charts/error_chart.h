#pragma once

#include <vector>

#include "costmodel/residuals.h"
#include "gui/charts/chart.h"
#include "gui/charts/legend.h"

namespace headroom::gui {

/// The errors of predictions for the measured runs of one framework: a row per source, a mark per
/// run. Errors beyond 30 % are marked at the edge.
class ErrorChart : public Chart {
  Q_OBJECT

 public:
  explicit ErrorChart(QWidget* parent = nullptr);

  void setErrors(std::vector<cost::ResidualSet> sets);
  [[nodiscard]] const std::vector<cost::ResidualSet>& sets() const { return sets_; }
  [[nodiscard]] QString textOf(const cost::ResidualSet& set) const;
  [[nodiscard]] QSize sizeHint() const override;
  [[nodiscard]] QSize minimumSizeHint() const override;

 protected:
  void draw(QPainter& painter) override;
  void layOut() override;
  bool event(QEvent* event) override;

 private:
  /// The sets of one source.
  struct Row {
    std::size_t first = 0;  ///< Into `sets_`.
    std::size_t last = 0;   ///< One past the last.
    std::size_t runs = 0;   ///< The most of one set.
  };
  [[nodiscard]] QRectF rowArea(std::size_t row) const;
  void drawMarks(QPainter& painter, const cost::ResidualSet& set, qreal y) const;
  [[nodiscard]] qreal xOf(double error) const;

  std::vector<cost::ResidualSet> sets_;
  std::vector<Row> rows_;
  std::vector<LegendEntry> legend_;
  QRectF legend_area_;
  QRectF plot_;
  qreal row_height_ = 1;
  double range_ = 0.01;  ///< The axis goes from -range to +range.
};

}  // namespace headroom::gui
