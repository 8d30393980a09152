#pragma once

#include <optional>
#include <vector>

#include <QPointF>

#include "gui/charts/chart.h"
#include "gui/charts/layer_map.h"
#include "gui/charts/legend.h"

namespace headroom::gui {

/// "keep", "recompute a part", ...
[[nodiscard]] QString treatment_name(LayerTreatment treatment);

/// One cell per layer, a row of cells per stage, with the treatment as colour and pattern, and the
/// bytes that the layer keeps at the peak as a bar. A click or Enter acts on a cell; the arrow keys
/// move.
class LayerChart : public Chart {
  Q_OBJECT

 public:
  explicit LayerChart(QWidget* parent = nullptr);

  void setMap(LayerMap map);
  [[nodiscard]] const LayerMap& map() const { return map_; }
  /// The layer of the cell at a place.
  [[nodiscard]] std::optional<std::int64_t> layerAt(const QPointF& place) const;
  [[nodiscard]] QRectF cellArea(std::int64_t layer) const;
  [[nodiscard]] QString textOf(std::int64_t layer) const;
  [[nodiscard]] QSize sizeHint() const override;
  [[nodiscard]] QSize minimumSizeHint() const override;

 Q_SIGNALS:
  /// Emitted when the user acts on a layer's cell.
  void picked(qlonglong layer);

 protected:
  void draw(QPainter& painter) override;
  void layOut() override;
  bool event(QEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  void drawCell(QPainter& painter, const LayerCell& cell, Bytes most) const;
  void moveTo(std::int64_t layer);

  LayerMap map_;
  std::vector<QRectF> areas_;  ///< By layer.
  std::vector<QRectF> rows_;   ///< By stage.
  std::vector<LegendEntry> legend_;
  QRectF legend_area_;
  std::int64_t current_ = 0;
  int per_line_ = 1;  ///< Cells in a line.
};

}  // namespace headroom::gui
